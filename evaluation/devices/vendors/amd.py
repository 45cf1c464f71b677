"""AMD GPUs: what AMD's tools say of them (amdsmi, else rocm-smi), and the peaks that PyTorch's
build for ROCm reaches on them.

No AMD GPU was at hand. What is read of the tools was tried on outputs of theirs as they are
documented; `devices`, and with it PyTorch on such a GPU, was never run. No kernel is judged there
yet: the judge's memory is shared by CUDA's runtime.
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
from evaluation.devices import peaks_gpu
from evaluation.devices.device import Device, slug_of

KIND = device_kind.GPU
VENDOR = "AMD"
UNJUDGED = "" if "amd" in device_kind.JUDGED else "AMD's GPUs are measured, but not judged on yet"
SECONDS = 30
COMMAND = (
    "--showproductname --showdriverversion --showbus --showclocks --showtemp --showpower"
    " --showmeminfo vram --json".split()
)
THROTTLES = "prochot_thrm ppt_pwr socket_thrm vr_thrm hbm_thrm".split()
"""What may hold back an MI300: a hot processor, the package's power, a hot socket, regulator or
memory. Source: AMD SMI, "GPU violations".
"""


def devices(cache: Path, again: bool = False) -> Sequence[Device]:
    """The GPUs that this process sees, in HIP's order; of each model the first is measured.

    None where PyTorch fails on one: nothing is judged there, and the processor shall be.
    """
    if device_kind.gpu_vendor() != "amd":
        return []
    try:
        return _devices(cache, again)
    except (AttributeError, RuntimeError) as error:
        print(f"PyTorch cannot tell of the AMD GPU that is here: {error}", file=sys.stderr)
        return []


def _devices(cache: Path, again: bool) -> list[Device]:
    import torch

    told = now()
    found: list[Device] = []
    count = torch.cuda.device_count()
    for index in range(count):
        properties: Any = torch.cuda.get_device_properties(index)
        address = (properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id)
        pci = "{:04x}:{:02x}:{:02x}.0".format(*address)
        arch = properties.gcnArchName.partition(":")[0]
        name = told.get(pci, {}).get("name", properties.name)
        model = {
            "name": name,
            "arch": arch,
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "l2_bytes": properties.L2_cache_size,
            "hip": torch.version.hip,
            "driver": told.get(pci, {}).get("driver", ""),
        }
        slug = slug_of(name)
        first = all(other.slug != slug for other in found)
        peaks = peaks_gpu.measured(cache, model, index, again and first)
        found.append(
            peaks_gpu.device(
                model,
                peaks,
                vendor=VENDOR,
                arch=arch,
                uuid=pci,
                environment=_visible(index) if count > 1 else {},
                unjudged=UNJUDGED,
            )
        )
    return found


def state(device: Device) -> dict[str, Any]:
    return now().get(device.uuid, {}) if device.vendor == VENDOR else {}


def now() -> dict[str, dict[str, Any]]:
    """What is told of each GPU, by its PCI address: its name, gfx architecture and driver, clocks
    in MHz, degrees Celsius, watts, bytes of memory, throttle reasons; nothing without a tool.
    """
    return from_library() or from_command()


def from_library() -> dict[str, dict[str, Any]]:
    """What amdsmi says. Source: AMD SMI Python API, release 7.0."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # without its library it says so there
            import amdsmi
    except (ImportError, KeyError, AttributeError, OSError):
        return {}
    try:
        amdsmi.amdsmi_init()
        handles = amdsmi.amdsmi_get_processor_handles()
        return {amdsmi.amdsmi_get_gpu_device_bdf(each): _asked(amdsmi, each) for each in handles}
    except amdsmi.AmdSmiException:
        return {}
    finally:
        with contextlib.suppress(amdsmi.AmdSmiException):
            amdsmi.amdsmi_shut_down()


def _asked(amdsmi: Any, handle: Any) -> dict[str, Any]:
    """What one GPU answers; what it does not support, or says is N/A, is left out."""

    def ask(function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(handle, *arguments)
        except amdsmi.AmdSmiLibraryException:
            return {}

    asic, driver = ask(amdsmi.amdsmi_get_gpu_asic_info), ask(amdsmi.amdsmi_get_gpu_driver_info)
    power, memory = ask(amdsmi.amdsmi_get_power_info), ask(amdsmi.amdsmi_get_gpu_vram_usage)
    violations = ask(amdsmi.amdsmi_get_violation_status)
    reasons = {name: violations.get(f"active_{name}", "N/A") for name in THROTTLES}
    drawn = [power.get(f"{which}_socket_power", "N/A") for which in ("current", "average")]
    hottest = ask(
        amdsmi.amdsmi_get_temp_metric,
        amdsmi.AmdSmiTemperatureType.HOTSPOT,
        amdsmi.AmdSmiTemperatureMetric.CURRENT,
    )
    told = {
        "name": asic.get("market_name"),
        "arch": asic.get("target_graphics_version"),
        "driver": driver.get("driver_version"),
        "gfx_mhz": ask(amdsmi.amdsmi_get_clock_info, amdsmi.AmdSmiClkType.GFX).get("clk"),
        "memory_mhz": ask(amdsmi.amdsmi_get_clock_info, amdsmi.AmdSmiClkType.MEM).get("clk"),
        "celsius": hottest if hottest != {} else None,
        "watts": next((watts for watts in drawn if watts != "N/A"), None),
        "memory_bytes": _mebibytes(memory.get("vram_total")),
        "memory_used_bytes": _mebibytes(memory.get("vram_used")),
    }
    if "N/A" not in reasons.values():
        told["throttled"] = sorted(name for name, active in reasons.items() if active)
    return {name: value for name, value in told.items() if value not in (None, "N/A")}


def from_command() -> dict[str, dict[str, Any]]:
    """What `rocm-smi --json` says. Of throttling it tells nothing."""
    tool = shutil.which("rocm-smi", path=f"{os.environ.get('PATH')}:/opt/rocm/bin")
    if tool is None:
        return {}
    try:
        done = subprocess.run([tool, *COMMAND], capture_output=True, text=True, timeout=SECONDS)
        said = json.loads(done.stdout[done.stdout.find("{") :])  # warnings may come before
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return {}
    driver = said.get("system", {}).get("Driver version")
    cards = [card for name, card in said.items() if name.startswith("card")]
    return {
        card["PCI Bus"].lower(): _read(card) | ({"driver": driver} if driver else {})
        for card in cards
        if "PCI Bus" in card
    }


def _read(card: Mapping[str, str]) -> dict[str, Any]:
    """One card of rocm-smi's, whose keys have changed their case and words between releases."""
    keys = {key.lower().rstrip(":"): value for key, value in card.items()}
    named = {key: value for key, value in keys.items() if value != "N/A" and value[:2] != "0x"}

    def text(*names: str) -> str | None:
        return next((named[name] for name in names if name in named), None)

    def number(*names: str) -> float | None:
        found = re.search(r"\d+(?:\.\d+)?", text(*names) or "")
        return json.loads(found[0]) if found else None

    socket, package = "current socket graphics package power (w)", "average graphics package power"
    junction, edge = (f"temperature (sensor {which}) (c)" for which in ("junction", "edge"))
    told = {
        "name": text("card series", "card model"),
        "arch": text("gfx version"),
        "gfx_mhz": number("sclk clock speed"),
        "memory_mhz": number("mclk clock speed"),
        "celsius": number(junction, edge),
        "watts": number(socket, f"{package} (w)"),
        "memory_bytes": number("vram total memory (b)"),
        "memory_used_bytes": number("vram total used memory (b)"),
    }
    return {name: value for name, value in told.items() if value is not None}


def _mebibytes(count: int | None) -> int | None:
    return None if count is None else count << 20


def _visible(index: int) -> dict[str, str]:
    """The environment in which the GPU that is `index` here is the only one."""
    names = [name for name in os.environ.get("HIP_VISIBLE_DEVICES", "").split(",") if name]
    return {"HIP_VISIBLE_DEVICES": names[index] if names else str(index)}
