"""AMD GPUs: state from amdsmi or rocm-smi, peaks from PyTorch for ROCm.

Limitation: no AMD GPU was at hand. Parsing was tried on documented outputs; `devices` was never run
on a GPU. Kernels are not judged there yet, since the judge's memory is shared by CUDA IPC.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation import device_kind
from evaluation.bench.devices import peaks_gpu
from evaluation.bench.devices.device import Device

KIND = device_kind.GPU
VENDOR = "AMD"
UNJUDGED = "" if "amd" in device_kind.JUDGED else "kernels are not judged on AMD GPUs yet"
MAX_TOOL_SECONDS = 30
COMMAND = (
    "--showproductname --showdriverversion --showbus --showclocks --showtemp --showpower"
    " --showmeminfo vram --json".split()
)
THROTTLES = "prochot_thrm ppt_pwr socket_thrm vr_thrm hbm_thrm".split()
"""Throttle reasons of an MI300. Source: AMD SMI, "GPU violations"."""


def devices(cache: Path, again: bool = False) -> Sequence[Device]:
    """Return the GPUs that this process sees, in HIP's order; the first of each model is measured.

    There are none where PyTorch fails on one, so that the CPU is used.
    """
    if device_kind.gpu_vendor() != "amd":
        return []
    try:
        return peaks_gpu.devices(_gpus(), VENDOR, cache, again, UNJUDGED)
    except (AttributeError, RuntimeError) as error:
        print(f"PyTorch cannot use the AMD GPU of this machine: {error}", file=sys.stderr)
        return []


def _gpus() -> list[peaks_gpu.Gpu]:
    import torch  # takes a second to import

    known, gpus = states(), []
    for index in range(torch.cuda.device_count()):
        properties: Any = torch.cuda.get_device_properties(index)
        address = (properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id)
        pci = "{:04x}:{:02x}:{:02x}.0".format(*address)
        arch = properties.gcnArchName.partition(":")[0]
        model = {
            "name": known.get(pci, {}).get("name", properties.name),
            "arch": arch,
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "l2_bytes": properties.L2_cache_size,
            "hip": torch.version.hip,
            "driver": known.get(pci, {}).get("driver", ""),
        }
        gpus.append(peaks_gpu.Gpu(model, arch, pci, visible(index)))
    return gpus


def state(device: Device) -> dict[str, Any]:
    """Return a GPU's state; empty for another vendor's device."""
    return states().get(device.uuid, {}) if device.vendor == VENDOR else {}


def states() -> dict[str, dict[str, Any]]:
    """Return the state of each GPU by PCI address; empty without a tool.

    Units: clocks in MHz, degrees Celsius, watts, bytes.
    """
    return from_library() or from_command()


def from_library() -> dict[str, dict[str, Any]]:
    """Return the state from amdsmi. Source: AMD SMI Python API, release 7.0."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints a warning without its library
            import amdsmi  # optional
    except (ImportError, KeyError, AttributeError, OSError):
        return {}
    try:
        amdsmi.amdsmi_init()
        handles = amdsmi.amdsmi_get_processor_handles()
        return {amdsmi.amdsmi_get_gpu_device_bdf(each): _query(amdsmi, each) for each in handles}
    except amdsmi.AmdSmiException:
        return {}
    finally:
        with contextlib.suppress(amdsmi.AmdSmiException):
            amdsmi.amdsmi_shut_down()


def _query(amdsmi: Any, handle: Any) -> dict[str, Any]:
    """Return the supported values of one GPU."""

    def ask(function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(handle, *arguments)
        except amdsmi.AmdSmiLibraryException:
            return {}

    asic, driver = ask(amdsmi.amdsmi_get_gpu_asic_info), ask(amdsmi.amdsmi_get_gpu_driver_info)
    power, memory = ask(amdsmi.amdsmi_get_power_info), ask(amdsmi.amdsmi_get_gpu_vram_usage)
    violations = ask(amdsmi.amdsmi_get_violation_status)
    reasons = {name: violations.get(f"active_{name}", "N/A") for name in THROTTLES}
    power_watts = [power.get(f"{which}_socket_power", "N/A") for which in ("current", "average")]
    hottest = ask(
        amdsmi.amdsmi_get_temp_metric,
        amdsmi.AmdSmiTemperatureType.HOTSPOT,
        amdsmi.AmdSmiTemperatureMetric.CURRENT,
    )
    values = {
        "name": asic.get("market_name"),
        "arch": asic.get("target_graphics_version"),
        "driver": driver.get("driver_version"),
        "gfx_mhz": ask(amdsmi.amdsmi_get_clock_info, amdsmi.AmdSmiClkType.GFX).get("clk"),
        "memory_mhz": ask(amdsmi.amdsmi_get_clock_info, amdsmi.AmdSmiClkType.MEM).get("clk"),
        "celsius": hottest if hottest != {} else None,
        "watts": next((watts for watts in power_watts if watts != "N/A"), None),
        "memory_bytes": _mebibytes(memory.get("vram_total")),
        "memory_used_bytes": _mebibytes(memory.get("vram_used")),
    }
    if "N/A" not in reasons.values():
        values["throttled"] = sorted(name for name, active in reasons.items() if active)
    return {name: value for name, value in values.items() if value not in (None, "N/A")}


def from_command(max_seconds: float = MAX_TOOL_SECONDS) -> dict[str, dict[str, Any]]:
    """Return the state from `rocm-smi --json`, which has no throttle reasons."""
    tool = shutil.which("rocm-smi", path=f"{os.environ.get('PATH')}:/opt/rocm/bin")
    if tool is None:
        return {}
    try:
        done = subprocess.run([tool, *COMMAND], capture_output=True, text=True, timeout=max_seconds)
        data = json.loads(done.stdout[done.stdout.find("{") :])  # warnings may come before
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return {}
    driver = data.get("system", {}).get("Driver version")
    cards = [card for name, card in data.items() if name.startswith("card")]
    return {
        card["PCI Bus"].lower(): _read(card) | ({"driver": driver} if driver else {})
        for card in cards
        if "PCI Bus" in card
    }


def _read(card: Mapping[str, str]) -> dict[str, Any]:
    """Return one card of rocm-smi, whose keys differ between releases."""
    keys = {key.lower().rstrip(":"): value for key, value in card.items()}
    named = {key: value for key, value in keys.items() if value != "N/A" and value[:2] != "0x"}

    def text(*names: str) -> str | None:
        return next((named[name] for name in names if name in named), None)

    def number(*names: str) -> float | None:
        found = re.search(r"\d+(?:\.\d+)?", text(*names) or "")
        return json.loads(found[0]) if found else None

    socket, package = "current socket graphics package power (w)", "average graphics package power"
    junction, edge = (f"temperature (sensor {which}) (c)" for which in ("junction", "edge"))
    values = {
        "name": text("card series", "card model"),
        "arch": text("gfx version"),
        "gfx_mhz": number("sclk clock speed"),
        "memory_mhz": number("mclk clock speed"),
        "celsius": number(junction, edge),
        "watts": number(socket, f"{package} (w)"),
        "memory_bytes": number("vram total memory (b)"),
        "memory_used_bytes": number("vram total used memory (b)"),
    }
    return {name: value for name, value in values.items() if value is not None}


def _mebibytes(count: int | None) -> int | None:
    return None if count is None else count << 20


def visible(index: int) -> dict[str, str]:
    """Return the environment in which only the GPU of this `index` is visible."""
    names = [name for name in os.environ.get("HIP_VISIBLE_DEVICES", "").split(",") if name]
    return {"HIP_VISIBLE_DEVICES": names[index] if names else str(index)}
