"""Device files of the measured GPUs, on machines whose driver and files are fakes."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from evaluation import device_kind
from evaluation.bench.devices import gpu_files
from evaluation.bench.process.limits import ProcessLimits
from evaluation.errors import Broken

FIRST, SECOND, THIRD, PART = (
    f"{digit * 8}-0000-0000-0000-{digit * 12}" for digit in ("a", "b", "c", "d")
)


class NVMLError(Exception):
    """An error of the fake driver."""


@dataclass
class Machine:
    """A fake `/dev`, `/proc/driver/nvidia/capabilities` and driver."""

    folder: Path
    minors: dict[str, int] = field(default_factory=dict)
    """Minor numbers by name, such as `GPU-aaaa`."""
    parts: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    """GPU, GPU instance and compute instance of each part of a GPU."""

    def add(self, uuid: str, minor: int) -> None:
        self.minors[f"GPU-{uuid}"] = minor
        (self.folder / f"nvidia{minor}").touch()

    def divide(self, uuid: str, part: str, instance: int, compute: int, minors: list[int]) -> None:
        """Make a part of a GPU, whose two capabilities have these minor numbers."""
        self.parts[f"MIG-{part}"] = (f"GPU-{uuid}", instance, compute)
        gpu = f"gpu{self.minors[f'GPU-{uuid}']}"
        folder = self.folder / "capabilities" / gpu / "mig" / f"gi{instance}"
        (folder / f"ci{compute}").mkdir(parents=True)
        for place, minor in zip((folder, folder / f"ci{compute}"), minors, strict=True):
            text = f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
            (place / "access").write_text(text)

    def handle(self, name: str) -> str:
        if name not in self.minors and name not in self.parts:
            raise NVMLError(f"{name} is not found")
        return name

    def names(self, gpus: gpu_files.Gpus) -> tuple[str, set[str]]:
        """Return the names, and the files below the fake `/dev`."""
        folder = f"{self.folder}/"
        return ",".join(gpus.names), {file.removeprefix(folder) for file in gpus.files}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-modeset", "nvidia-nvswitchctl", "kmsg"):
        (tmp_path / name).touch()
    driver = SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=machine.handle,
        nvmlDeviceGetMinorNumber=lambda name: machine.minors[name],
        nvmlDeviceGetDeviceHandleFromMigDeviceHandle=lambda name: machine.parts[name][0],
        nvmlDeviceGetGpuInstanceId=lambda name: machine.parts[name][1],
        nvmlDeviceGetComputeInstanceId=lambda name: machine.parts[name][2],
    )
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    monkeypatch.setattr(device_kind, "DEVICES", tmp_path)
    monkeypatch.setattr(gpu_files, "CAPABILITIES", tmp_path / "capabilities")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    gpu_files._named.cache_clear()
    return machine


CONTROL = {"nvidiactl", "nvidia-uvm"}


def cuda_counts(monkeypatch: pytest.MonkeyPatch, *uuids: str) -> None:
    """Let CUDA number the visible GPUs in this order."""
    properties = lambda position: SimpleNamespace(uuid=uuids[position])  # noqa: E731
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)


def test_only_gpu_needs_no_driver_and_keeps_its_name(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.add(FIRST, 3)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert machine.names(gpu_files.measured()) == ("0", {*CONTROL, "nvidia3"})
    assert machine.names(gpu_files.of_uuid(FIRST)) == (f"GPU-{FIRST}", {*CONTROL, "nvidia3"})


@pytest.mark.parametrize(("visible", "gpu"), [(f"GPU-{SECOND}", 2), (f"GPU-{FIRST}", 5)])
def test_gpu_named_by_uuid_is_opened_alone(
    visible: str, gpu: int, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.add(FIRST, 5)
    machine.add(SECOND, 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert machine.names(gpu_files.measured()) == (visible, {*CONTROL, f"nvidia{gpu}"})


@pytest.mark.parametrize("visible", [None, "1", "1,0", "GPU-bbbb"])
def test_gpu_named_by_number_is_found_in_the_order_of_cuda(
    visible: str | None, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.add(FIRST, 0)
    machine.add(SECOND, 1)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    cuda_counts(monkeypatch, SECOND, FIRST)  # the faster one comes first
    assert machine.names(gpu_files.measured()) == (f"GPU-{SECOND}", {*CONTROL, "nvidia1"})


def test_ranks_open_a_gpu_each_in_order(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    for minor, uuid in enumerate((FIRST, SECOND, THIRD)):
        machine.add(uuid, minor)
    cuda_counts(monkeypatch, THIRD, FIRST, SECOND)
    limits = ProcessLimits(
        machine.folder, machine.folder, memory_bytes=1, seconds=1, threads=1, kind="gpu", ranks=2
    )
    assert limits.variables()["CUDA_VISIBLE_DEVICES"] == f"GPU-{THIRD},GPU-{FIRST}"
    files = {Path(path).name for path in limits.policy().gpu_files}
    assert files == {*CONTROL, "nvidia2", "nvidia0"}


@pytest.mark.parametrize("gpus", [(FIRST,), (FIRST, SECOND)])
def test_part_of_a_gpu_is_opened_with_its_capabilities_alone(
    gpus: tuple[str, ...], machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for minor, uuid in enumerate(gpus):
        machine.add(uuid, minor)
    machine.divide(FIRST, PART, 7, 0, [66, 67])
    machine.divide(FIRST, THIRD, 8, 0, [75, 76])
    expected = {*CONTROL, "nvidia0", "nvidia-caps/nvidia-cap66", "nvidia-caps/nvidia-cap67"}
    assert machine.names(gpu_files.of_uuid(PART)) == (f"MIG-{PART}", expected)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"MIG-{PART}")
    assert machine.names(gpu_files.measured()) == (f"MIG-{PART}", expected)


def test_gpu_that_the_driver_does_not_know_is_broken(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.add(FIRST, 0)
    machine.add(SECOND, 1)
    with pytest.raises(Broken, match="unknown"):
        gpu_files.of_uuid(THIRD)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(Broken, match="nvidia-ml-py"):
        gpu_files.of_uuid(FIRST)


def test_machine_without_gpus_has_no_files(machine: Machine) -> None:
    assert machine.names(gpu_files.measured()) == ("0", set())
