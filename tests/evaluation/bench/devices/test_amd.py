"""AMD GPUs: parsing of the documented output of rocm-smi and amdsmi.

Limitation: no AMD GPU was at hand. The first card is the example of Telegraf's plugin for rocm-smi
(ROCm 4.3), the second has the keys of ROCm 6. The fake amdsmi returns the dictionaries of its
Python API, release 7.0.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from evaluation.bench.devices import detect
from evaluation.bench.devices.device import Device
from evaluation.bench.devices.vendors import amd

VEGA = {
    "GPU ID": "0x6861", "Unique ID": "0x2150e7d042a1124", "VBIOS version": "113-D0510100-106",
    "Temperature (Sensor edge) (C)": "40.0", "Temperature (Sensor junction) (C)": "41.0",
    "Temperature (Sensor memory) (C)": "92.0", "mclk clock speed:": "(945Mhz)",
    "mclk clock level:": "3", "sclk clock speed:": "(1269Mhz)", "sclk clock level:": "3",
    "Max Graphics Package Power (W)": "170.0", "Average Graphics Package Power (W)": "15.0",
    "GPU use (%)": "0", "Serial Number": "N/A", "PCI Bus": "0000:04:00.0",
    "VRAM Total Memory (B)": "17163091968", "VRAM Total Used Memory (B)": "17776640",
    "Card model": "0xc1e", "Card vendor": "Advanced Micro Devices, Inc. [AMD/ATI]",
}  # fmt: skip
MI300 = {
    "Temperature (Sensor junction) (C)": "37.0", "Temperature (Sensor memory) (C)": "31.0",
    "Current Socket Graphics Package Power (W)": "133.0", "sclk clock speed:": "(132Mhz)",
    "mclk clock speed:": "(900Mhz)", "VRAM Total Memory (B)": "206141652992",
    "VRAM Total Used Memory (B)": "298270720", "Card Series": "AMD Instinct MI300X",
    "Card Model": "0x74a1", "Card Vendor": "Advanced Micro Devices, Inc. [AMD/ATI]",
    "PCI Bus": "0000:C1:00.0", "GFX Version": "gfx942",
}  # fmt: skip


@pytest.fixture
def rocm_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Output file of a fake `rocm-smi` on PATH, which records its arguments."""
    tool, output = tmp_path / "rocm-smi", tmp_path / "output"
    tool.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\ncat {output}\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return output


def device(pci: str, vendor: str = "AMD") -> Device:
    return Device(
        slug="d", kind="gpu", vendor=vendor, name="n", arch="a", queue="hw.d", cores=1, threads=1,
        memory_bytes=1, last_level_cache_bytes=1, levels=(), peaks={}, isolation={},
        fingerprint={"uuid": pci},
    )  # fmt: skip


def test_rocm_smi_output_of_any_release_is_parsed(rocm_smi: Path) -> None:
    data = {"card0": VEGA, "card1": MI300, "system": {"Driver version": "6.8.5"}}
    rocm_smi.write_text("WARNING: a device is in a low-power state\n" + json.dumps(data))
    assert amd.from_command() == {
        "0000:04:00.0": {
            "driver": "6.8.5", "gfx_mhz": 1269, "memory_mhz": 945, "celsius": 41.0, "watts": 15.0,
            "memory_bytes": 17163091968, "memory_used_bytes": 17776640,
        },
        "0000:c1:00.0": {
            "name": "AMD Instinct MI300X", "arch": "gfx942", "driver": "6.8.5", "gfx_mhz": 132,
            "memory_mhz": 900, "celsius": 37.0, "watts": 133.0, "memory_bytes": 206141652992,
            "memory_used_bytes": 298270720,
        },
    }  # fmt: skip
    arguments = rocm_smi.with_name("arguments").read_text().split()
    assert "--json" in arguments and "--showbus" in arguments


@pytest.mark.parametrize("output", ["", "ERROR: no ROCm driver", "{", '{"system": {}}'])
def test_rocm_smi_without_cards_returns_nothing(rocm_smi: Path, output: str) -> None:
    rocm_smi.write_text(output)
    assert amd.from_command() == {}


def test_hanging_rocm_smi_times_out(rocm_smi: Path) -> None:
    tool = rocm_smi.with_name("rocm-smi")
    tool.write_text("#!/bin/sh\nexec sleep 600\n")
    assert amd.from_command(max_seconds=0.2) == {}


def test_machine_without_tools_has_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    assert amd.states() == {}


class Refused(Exception):
    """Stands for AmdSmiException."""


def amdsmi(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
    """Install a fake library with one GPU; values that are not named are unsupported."""
    module = ModuleType("amdsmi")

    def unsupported(handle: object, *arguments: object) -> Any:
        raise Refused("AMDSMI_STATUS_NOT_SUPPORTED")

    names = "asic_info driver_info vram_usage device_bdf".split()
    functions = [f"gpu_{name}" for name in names]
    for name in (*functions, "power_info", "violation_status", "clock_info", "temp_metric"):
        answer = answers.get(name)
        given = (lambda handle, *a, answer=answer: answer) if name in answers else unsupported
        setattr(module, f"amdsmi_get_{name}", given)
    values: dict[str, Any] = {
        "amdsmi_init": lambda: None, "amdsmi_shut_down": lambda: None,
        "amdsmi_get_processor_handles": lambda: [object()],
        "AmdSmiException": Refused, "AmdSmiLibraryException": Refused,
        "AmdSmiClkType": type("T", (), {"GFX": 1, "MEM": 4}),
        "AmdSmiTemperatureType": type("T", (), {"HOTSPOT": 1}),
        "AmdSmiTemperatureMetric": type("T", (), {"CURRENT": 0}),
    }  # fmt: skip
    for name, value in values.items():
        setattr(module, name, answers.get(name, value))
    monkeypatch.setitem(sys.modules, "amdsmi", module)


WHOLE: dict[str, Any] = {
    "gpu_device_bdf": "0000:c1:00.0",
    "gpu_asic_info": {
        "market_name": "AMD Instinct MI300X", "vendor_id": "0x1002", "num_compute_units": 304,
        "target_graphics_version": "gfx942",
    },
    "gpu_driver_info": {"driver_name": "amdgpu", "driver_version": "6.12.12", "driver_date": "N/A"},
    "gpu_vram_usage": {"vram_total": 196592, "vram_used": 284},
    "power_info": {"current_socket_power": 133, "average_socket_power": "N/A", "power_limit": 750},
    "clock_info": {"clk": 132, "min_clk": 500, "max_clk": 2100, "clk_locked": False},
    "temp_metric": 37,
    "violation_status": {
        "active_prochot_thrm": False, "active_ppt_pwr": True, "active_socket_thrm": False,
        "active_vr_thrm": False, "active_hbm_thrm": False, "per_ppt_pwr": 12,
    },
}  # fmt: skip


def test_amdsmi_comes_before_rocm_smi(monkeypatch: pytest.MonkeyPatch, rocm_smi: Path) -> None:
    amdsmi(monkeypatch, **WHOLE)
    assert amd.states() == {
        "0000:c1:00.0": {
            "name": "AMD Instinct MI300X", "arch": "gfx942", "driver": "6.12.12", "gfx_mhz": 132,
            "memory_mhz": 132, "celsius": 37, "watts": 133, "memory_bytes": 196592 << 20,
            "memory_used_bytes": 284 << 20, "throttled": ["ppt_pwr"],
        }
    }  # fmt: skip
    assert not rocm_smi.with_name("arguments").exists()


def test_unsupported_amdsmi_values_are_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    power = {"current_socket_power": "N/A", "average_socket_power": 41}
    violations = dict.fromkeys(WHOLE["violation_status"], "N/A")
    answers = {"gpu_device_bdf": "0000:04:00.0", "power_info": power}
    amdsmi(monkeypatch, violation_status=violations, **answers)
    assert amd.from_library() == {"0000:04:00.0": {"watts": 41}}


def test_failing_amdsmi_falls_back_to_rocm_smi(
    monkeypatch: pytest.MonkeyPatch, rocm_smi: Path
) -> None:
    def refuse() -> None:
        raise Refused("AMDSMI_STATUS_DRIVER_NOT_LOADED")

    amdsmi(monkeypatch, **WHOLE, amdsmi_init=refuse, amdsmi_shut_down=refuse)
    rocm_smi.write_text(json.dumps({"card0": MI300}))
    assert set(amd.states()) == {"0000:c1:00.0"}


def test_state_is_found_by_pci_address(monkeypatch: pytest.MonkeyPatch, rocm_smi: Path) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    rocm_smi.write_text(json.dumps({"card0": VEGA, "card1": MI300}))
    assert detect.state(device("0000:c1:00.0"))["watts"] == 133.0
    assert detect.state(device("0000:04:00.0"))["watts"] == 15.0
    assert detect.state(device("0000:ff:00.0")) == {}
    assert detect.state(device("0000:c1:00.0", vendor="NVIDIA")) == {}


@pytest.mark.parametrize(("seen", "second"), [("", "1"), ("2,5", "5"), ("GPU-a,GPU-b", "GPU-b")])
def test_visible_gpu_is_named_as_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, seen: str, second: str
) -> None:
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", seen)
    assert amd.visible(1) == {"HIP_VISIBLE_DEVICES": second}
