"""Machines with several GPUs: equal GPUs share a model's peaks and differ by UUID.

PyTorch and the driver are replaced by fakes. On a real machine with two H200s both were listed, and
simultaneous verdicts equalled those of one alone.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evaluation import device_kind
from evaluation.bench.devices import detect, peaks_gpu
from evaluation.bench.devices.vendors import amd, nvidia
from evaluation.bench.process.limits import ProcessLimits

H200 = {
    "name": "NVIDIA H200", "major": 9, "minor": 0, "multi_processor_count": 132,
    "total_memory": 150109880320, "L2_cache_size": 62914560,
}  # fmt: skip
RATES = {"memory_gbps": 4200.0, "l2_gbps": 5000.0, "float32_tflops": 51.0}


class Machine:
    """Fake PyTorch with GPUs; it records on which of them peaks were measured."""

    def __init__(self) -> None:
        self.gpus: list[Mapping[str, Any]] = []
        self.rates = dict(RATES)
        self.measured: list[int] = []
        self._current = 0

    @contextlib.contextmanager
    def device(self, index: int) -> Iterator[None]:
        self._current = index
        yield

    def measure(self, l2_bytes: int) -> Iterator[tuple[str, float]]:
        self.measured.append(self._current)
        yield from self.rates.items()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Two H200s with a GPU of another model between them."""
    machine = Machine()
    other = {**H200, "name": "NVIDIA H100 PCIe", "multi_processor_count": 114}
    machine.gpus = [{**H200, "uuid": "aaaa"}, {**other, "uuid": "cccc"}, {**H200, "uuid": "bbbb"}]
    properties = lambda index: SimpleNamespace(**machine.gpus[index])  # noqa: E731
    monkeypatch.setattr(device_kind, "gpu_vendor", lambda: "nvidia")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(machine.gpus))
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    monkeypatch.setattr(torch.cuda, "device", machine.device)
    monkeypatch.setattr(peaks_gpu, "measured_peaks", machine.measure)
    return machine


def test_equal_gpus_share_slug_and_queue_but_not_uuid(machine: Machine, tmp_path: Path) -> None:
    first, other, second = nvidia.devices(tmp_path)
    assert (
        (first.slug, first.queue)
        == (second.slug, second.queue)
        == ("nvidia-h200", "hw.nvidia-h200")
    )
    assert (first.uuid, second.uuid) == ("aaaa", "bbbb")
    assert other.slug == "nvidia-h100-pcie"
    assert second.environment == {"CUDA_VISIBLE_DEVICES": "GPU-bbbb"}


def test_gpu_peaks_are_measured_once_per_model_and_driver(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _, second = nvidia.devices(tmp_path)
    assert machine.measured == [0, 1]
    assert first.peaks == second.peaks == RATES
    nvidia.devices(tmp_path)
    assert machine.measured == [0, 1]
    monkeypatch.setattr(nvidia, "nvml_state", lambda uuid: {"driver": "999"})
    nvidia.devices(tmp_path)
    assert machine.measured == [0, 1, 0, 1]


def test_gpu_peaks_measured_again_keep_the_better_value(machine: Machine, tmp_path: Path) -> None:
    machine.gpus = machine.gpus[2:]
    (before,) = nvidia.devices(tmp_path)
    machine.rates = {"memory_gbps": 4300.0, "l2_gbps": 1.0, "float32_tflops": 1.0}
    after = detect.measure_again(before, tmp_path)
    assert after.uuid == "bbbb"
    assert after.peaks == {**RATES, "memory_gbps": 4300.0}


def test_single_gpu_has_no_environment(machine: Machine, tmp_path: Path) -> None:
    machine.gpus = [{**H200, "name": "NVIDIA H200 MIG 1g.18gb", "uuid": "dddd"}]
    (part,) = nvidia.devices(tmp_path)
    assert part.environment == {}
    assert part.slug == "nvidia-h200-mig-1g-18gb"


def test_candidate_process_inherits_the_judges_gpu(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, second = nvidia.devices(tmp_path)
    for name, value in second.environment.items():
        monkeypatch.setenv(name, value)  # as for a judge
    limits = ProcessLimits(tmp_path, tmp_path, memory_bytes=1, seconds=1, threads=1, kind="gpu")
    assert limits.variables()["CUDA_VISIBLE_DEVICES"] == "GPU-bbbb"


def test_amd_gpu_is_detected_by_pci_address_and_unjudged(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {
        **H200, "name": "AMD Radeon Graphics", "gcnArchName": "gfx942:sramecc+:xnack-",
        "pci_domain_id": 0, "pci_bus_id": 0xC1, "pci_device_id": 0,
    }  # fmt: skip
    machine.gpus = [{**found, "pci_bus_id": 0x04}, found]
    states = {"0000:c1:00.0": {"name": "AMD Instinct MI300X", "driver": "6.12.12"}}
    monkeypatch.setattr(device_kind, "gpu_vendor", lambda: "amd")
    monkeypatch.setattr(amd, "states", lambda: states)
    other, device = amd.devices(tmp_path)
    assert (device.slug, device.arch, device.uuid) == (
        "amd-instinct-mi300x",
        "gfx942",
        "0000:c1:00.0",
    )
    assert device.environment == {"HIP_VISIBLE_DEVICES": "1"}
    assert device.fingerprint["driver"] == "6.12.12" and device.unjudged
    assert other.name == "AMD Radeon Graphics"
    assert machine.measured == [0, 1]


def test_amd_gpu_without_pytorch_support_is_ignored_with_a_message(
    machine: Machine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(device_kind, "gpu_vendor", lambda: "amd")
    assert amd.devices(tmp_path) == []  # these have no PCI address
    assert "PyTorch cannot use the AMD GPU of this machine" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("capability", "alike"), [((8, 6), False), ((9, 0), True), ((10, 0), True), ((10, 3), False)]
)
def test_peak_is_the_fastest_of_several_products(
    capability: tuple[int, int], alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    precisions: list[bool] = []

    def seconds(call: Callable[[], Any], runs: int = 5) -> float:
        call()  # it must work
        return 0.5 if precisions and precisions[-1] else 2.0

    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        precisions.append(torch.backends.cuda.matmul.allow_tf32)
        return x @ y

    small = peaks_gpu.Sizes("cpu", 1 << 10, {"float32": 8, "int8": 32}, seconds)
    monkeypatch.setattr(torch, "mm", product)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    floats: list[torch.dtype] = []
    record = lambda x, *rest, **options: floats.append(x.dtype)  # noqa: E731
    monkeypatch.setattr(torch, "_scaled_mm", record)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    peaks = dict(peaks_gpu.measured_peaks(1 << 20, small))
    assert floats == ([torch.float8_e4m3fn] if alike else [])
    assert precisions[:2] == [False, True] and not torch.backends.cuda.matmul.allow_tf32
    assert peaks["float32_tflops"] == pytest.approx(2 * 8**3 / (3 * 0.5) / 1e12)
    assert peaks["memory_gbps"] == pytest.approx(2 * 1024 / 2.0 / 1e9)


def test_unsupported_nvml_value_is_omitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Refused(Exception):
        pass

    def refuse(*asked: object) -> None:
        raise Refused

    nvml = SimpleNamespace(
        NVMLError=Refused, NVML_CLOCK_SM=1, NVML_CLOCK_MEM=2, NVML_TEMPERATURE_GPU=0,
        nvmlClocksThrottleReasonAll=7, nvmlClocksThrottleReasonGpuIdle=1,
        nvmlClocksThrottleReasonSwPowerCap=4,
        nvmlInit=lambda: None, nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlSystemGetDriverVersion=lambda: "580", nvmlDeviceGetClockInfo=lambda gpu, kind: kind,
        nvmlDeviceGetTemperature=refuse, nvmlDeviceGetPowerUsage=lambda gpu: 143_058,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda gpu: 4,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    values = {"driver": "580", "sm_mhz": 1, "memory_mhz": 2, "watts": 143.058}
    assert nvidia.nvml_state("aaaa") == {**values, "throttled": ["SwPowerCap"]}
    nvml.nvmlDeviceGetHandleByUUID = refuse
    assert nvidia.nvml_state("aaaa") == {}
