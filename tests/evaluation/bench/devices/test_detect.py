"""Devices: data read from the machine, measured peaks, roofline and lists of devices."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evaluation.bench.devices import detect
from evaluation.bench.devices.device import Device, Level
from evaluation.bench.devices.vendors import amd, nvidia
from evaluation.bench.devices.vendors.cpu import cache_bytes, devices, name_of
from evaluation.errors import RequestError
from evaluation.judge import report_text
from evaluation.types import to_json


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("peaks")


@pytest.fixture(scope="module")
def cpu(folder: Path) -> Device:
    return next(device for device in detect.devices(folder) if device.kind == "cpu")


def device(*levels: Level, tflops: float = 1.0) -> Device:
    """Return a device with these levels; a roofline needs nothing else."""
    return Device(
        slug="d", kind="cpu", vendor="v", name="n", arch="a", queue="hw.d", cores=1, threads=1,
        memory_bytes=1, last_level_cache_bytes=1, levels=levels,
        peaks={"float32_tflops": tflops}, isolation={}, fingerprint={},
    )  # fmt: skip


TWO_LEVELS = device(Level("L1", 1000, 100.0), Level("memory", 0, 10.0))


def test_roofline_uses_the_smallest_level_that_holds_the_working_set() -> None:
    assert TWO_LEVELS.roofline_seconds(500, 0, 1000) == pytest.approx(500 / 100e9)
    assert TWO_LEVELS.roofline_seconds(500, 0, 1001) == pytest.approx(500 / 10e9)


def test_roofline_is_the_larger_of_memory_and_compute_time() -> None:
    assert TWO_LEVELS.roofline_seconds(10**9, 10**9, 10**9) == pytest.approx(0.1)
    assert TWO_LEVELS.roofline_seconds(10**9, 10**12, 10**9) == pytest.approx(1.0)


def test_cpu_is_named_as_in_cpuinfo(cpu: Device) -> None:
    model = cpu.name.removesuffix(f" ({cpu.arch.split()[-1]})")
    assert model in Path("/proc/cpuinfo").read_text()
    assert cpu.cores == os.cpu_count()
    assert 1 <= cpu.threads <= cpu.cores
    assert cpu.queue == f"hw.{cpu.slug}"
    assert set(cpu.slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@pytest.mark.parametrize(
    ("model", "widest", "name"),
    [
        ("AMD EPYC", ["avx512f", "avx2"], "AMD EPYC (avx512f)"),
        ("AMD EPYC", ["avx2"], "AMD EPYC (avx2)"),
        ("AMD EPYC 9V74", ["avx512f"], "AMD EPYC 9V74"),
        ("aarch64", ["sve"], "aarch64"),
        ("AMD EPYC", [], "AMD EPYC"),
    ],
)
def test_processors_of_a_hidden_model_differ_by_their_vectors(
    model: str, widest: list[str], name: str
) -> None:
    assert name_of(model, widest) == name


def test_cpu_peaks_are_plausible(cpu: Device) -> None:
    assert cpu.levels[-1].name == "memory"
    assert all(0.1 < level.gbps < 100_000 for level in cpu.levels)
    assert 1e-4 < cpu.peaks["float32_tflops"] < 1000
    assert cpu.peaks["memory_gbps"] == cpu.levels[-1].gbps


PRODUCT = """
import sys, time, torch
torch.set_num_threads(int(sys.argv[1]))
a, size, best = torch.rand(768, 768), 768, float("inf")
for _ in range(30):
    start = time.perf_counter()  # waits: the shortest of many is compared
    a @ a
    best = min(best, time.perf_counter() - start)  # waits: as above
print(2e-12 * size**3 / best)
"""


def test_no_product_of_matrices_is_faster_than_the_measured_peak(cpu: Device) -> None:
    command = [sys.executable, "-c", PRODUCT, str(cpu.threads)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 0 < float(found.stdout) < 1.05 * cpu.peaks["float32_tflops"]


def test_first_cache_is_faster_than_memory(cpu: Device) -> None:
    if len(cpu.levels) < 2:
        pytest.skip("this machine does not report its caches")
    assert cpu.levels[0].gbps > cpu.levels[-1].gbps


def test_device_lists_isolation_features(cpu: Device) -> None:
    assert {"namespaces", "landlock", "seccomp"} <= set(cpu.isolation)


def test_peaks_are_measured_once_per_fingerprint(cpu: Device, folder: Path) -> None:
    (kept,) = (folder / "peaks").iterdir()
    again = devices(folder)[0]
    assert (again.levels, again.peaks) == (cpu.levels, cpu.peaks)
    assert list((folder / "peaks").iterdir()) == [kept]


def test_peaks_measured_again_only_rise(cpu: Device, folder: Path) -> None:
    (kept,) = (folder / "peaks").iterdir()
    quiet = json.loads(kept.read_text())
    kept.write_text(json.dumps([quiet[0] * 1e6, *(rate / 100 for rate in quiet[1:])]))
    again = detect.measure_again(cpu, folder)
    kept.write_text(json.dumps(quiet))
    assert again.slug == cpu.slug
    assert again.levels[0].gbps == quiet[0] * 1e6, "the better value of before is kept"
    assert again.levels[-1].gbps > quiet[-2] / 100
    assert again.peaks["float32_tflops"] > quiet[-1] / 100


def test_hardware_command_prints_json(cpu: Device, folder: Path) -> None:
    words = (sys.executable, "-m", "evaluation", "hardware", "--json", "--cache", str(folder))
    data = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    assert to_json(cpu) in data["devices"]


def test_device_text_names_every_level(cpu: Device) -> None:
    table = report_text.devices([cpu])
    assert cpu.slug in table
    assert all(level.name in table for level in cpu.levels)
    assert report_text.devices([dataclasses.replace(cpu, slug="another")]) != table


def test_shared_cache_counts_once(tmp_path: Path) -> None:
    for core in (0, 1, 2):
        indices = (("1", "Data", "48K", str(core)), ("1", "Instruction", "32K", str(core)),
                   ("3", "Unified", "32M", "0-1" if core < 2 else "2"))  # fmt: skip
        for index, values in enumerate(indices):
            place = tmp_path / f"cpu{core}" / "cache" / f"index{index}"
            place.mkdir(parents=True)
            for file, value in zip(
                ("level", "type", "size", "shared_cpu_list"), values, strict=True
            ):
                (place / file).write_text(value + "\n")
    assert cache_bytes(tmp_path, [0, 1]) == {"L1": 96 << 10, "L3": 32 << 20}
    assert cache_bytes(tmp_path, [1, 2]) == {"L1": 96 << 10, "L3": 64 << 20}
    assert cache_bytes(tmp_path / "nothing", [0]) == {}


def test_roofline_uses_the_peak_of_the_dtype_where_measured() -> None:
    peaks = {"float32_tflops": 1.0, "bfloat16_tflops": 8.0}
    gpu = dataclasses.replace(device(Level("memory", 0, 10.0)), peaks=peaks)
    assert gpu.roofline_seconds(0, 8 * 10**12, 1, "bfloat16") == pytest.approx(1.0)
    assert gpu.roofline_seconds(0, 8 * 10**12, 1, "float32") == pytest.approx(8.0)
    assert gpu.roofline_seconds(0, 8 * 10**12, 1, "int8") == pytest.approx(8.0)
    assert gpu.roofline_seconds(10**11, 8 * 10**12, 1, "bfloat16") == pytest.approx(10.0)


def test_cpu_has_no_state(cpu: Device) -> None:
    assert detect.state(TWO_LEVELS) == detect.state(cpu) == {}


@pytest.fixture
def two_gpus_and_more(cpu: Device, monkeypatch: pytest.MonkeyPatch) -> tuple[Device, ...]:
    """Two equal GPUs, an unjudged one, and this machine's CPU."""
    gpus = [
        dataclasses.replace(
            TWO_LEVELS, slug=slug, kind="gpu", fingerprint={"uuid": uuid}, unjudged=unjudged
        )
        for slug, uuid, unjudged in (
            ("h200", "aaaa", ""), ("h200", "bbbb", ""), ("mi300x", "0000:41:00.0", "not yet"),
        )
    ]  # fmt: skip
    of_kind = {"gpu": tuple(reversed(gpus)), "cpu": (cpu,)}
    monkeypatch.setattr(detect, "_devices", lambda folder, kind: of_kind[kind])
    return (*of_kind["gpu"], cpu)


def test_devices_are_numbered_with_gpus_first(
    two_gpus_and_more: tuple[Device, ...], cpu: Device
) -> None:
    assert detect.devices(Path()) == two_gpus_and_more
    table = report_text.devices(detect.devices(Path()))
    assert "0  mi300x" in table and "1  h200" in table and "2  h200" in table
    assert f"3  {cpu.slug}" in table
    assert "uuid       aaaa" in table and "uuid       bbbb" in table
    assert "not yet" in table


def test_device_is_found_by_number_slug_or_uuid(
    two_gpus_and_more: tuple[Device, ...], cpu: Device
) -> None:
    assert detect.find("2", Path()).uuid == "aaaa"
    assert detect.find("aaaa", Path()).uuid == "aaaa"
    assert detect.find("h200", Path()).uuid == "bbbb", "the first of equal ones"
    assert detect.find(cpu.slug, Path()) == cpu
    with pytest.raises(RequestError, match=r"no device h100 here; there are: 0 mi300x, 1 h200,"):
        detect.find("h100", Path())


def test_device_for_skips_unjudged_devices(
    two_gpus_and_more: tuple[Device, ...],
) -> None:
    assert detect.device_for("gpu", Path()).uuid == "bbbb"


def test_cpu_detection_does_not_touch_gpus(
    cpu: Device, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def touched(cache: Path, again: bool = False) -> list[Device]:
        raise AssertionError("GPUs were listed")

    for vendor in (nvidia, amd):
        monkeypatch.setattr(vendor, "devices", touched)
    detect._devices.cache_clear()
    assert detect.device_for("cpu", folder) == cpu


def test_every_vendor_returns_devices_of_its_kind_and_their_state(folder: Path) -> None:
    for vendor in detect._vendors():
        assert vendor.KIND in ("cpu", "gpu")
        for found in vendor.devices(folder):
            assert found.kind == vendor.KIND
            assert isinstance(vendor.state(found), dict)


def test_machine_name_tells_machines_apart_and_not_their_identity(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("4c5d8a01\n")
    other.write_text("4c5d8a02\n")
    names = [detect.machine_name(path) for path in (one, one, other)]
    assert names[0] == names[1] != names[2] and "4c5d8a01" not in names[0]
    container = tmp_path / "nothing"
    assert detect.machine_name(container, lambda: "a") != detect.machine_name(
        container, lambda: "b"
    )


def test_fingerprint_of_a_verdict_names_its_machine(folder: Path) -> None:
    assert detect.fingerprint("cpu", folder)["machine"] == detect.machine_name()
