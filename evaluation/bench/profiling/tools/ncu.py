"""Nsight Compute: hardware counters of each kernel, which it replays until all are read.

Source: Nsight Compute's documentation, "Kernel Profiling Guide" for the metrics and "Nsight Compute
CLI" for the options and the CSV pages.
"""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from evaluation.bench.profiling.kernels import Unprofiled, dimensions, kernel_name, number
from evaluation.types import KernelProfile

ORDER, LAUNCHES = 10, 1
MAX_CALLS = 64
PROBE_SECONDS = 20

DURATION = "gpu__time_duration.sum"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
REGISTERS = "launch__registers_per_thread"
SHARED = "launch__shared_mem_per_block"
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = (
    "barrier branch_resolving dispatch_stall drain gmma imc_miss lg_throttle long_scoreboard"
    " math_pipe_throttle membar mio_throttle misc no_instruction not_selected selected"
    " short_scoreboard sleeping tex_throttle wait"
).split()
"""Reasons for which a warp waits between two instructions; `selected` is the issue itself."""

_UNITS = {"n": 1e-3, "u": 1.0, "m": 1e3, "s": 1e6}
"""Microseconds in a unit of time, by its first letter."""
_REFUSED = "ERR_NVGPUCTRPERM"
_ERROR = re.compile(r"^==ERROR== (.*)$", re.MULTILINE)


def absent() -> str:
    return "" if _program() else "ncu (Nsight Compute) is not installed"


@cache
def title() -> str:
    program = _program()
    assert program is not None, "ncu is absent"
    output = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=PROBE_SECONDS
    ).stdout
    version = re.search(r"Version (\d+\.\d+(?:\.\d+)?)", output)
    return f"ncu {version[1]}" if version else "ncu"


def command() -> Sequence[str]:
    metrics = (DURATION, DRAM, SM, OCCUPANCY, REGISTERS, SHARED, *map(STALL.format, STALLS))
    return (
        *(str(_program()), "--csv", "--page", "raw", "--print-units", "base"),
        *("--metrics", ",".join(metrics)),
        # Locked clocks would change the measurements of other processes.
        *("--clock-control", "none"),
        *("--profile-from-start", "off", "--launch-count", str(MAX_CALLS)),
        *("--print-kernel-base", "function"),
    )


def readable() -> Sequence[str]:
    """Return ncu's own folder: the program on PATH is a link or a script."""
    program = _program()
    assert program is not None, "ncu is absent"
    return (str(Path(program).resolve().parent), "/opt/nvidia")


def watch(launches: Callable[[], None]) -> Mapping[str, Any]:
    import torch

    torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    try:
        launches()
        torch.cuda.synchronize()
    finally:
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]
    return {}


def read(output: str, answer: Mapping[str, Any]) -> list[KernelProfile]:
    if _REFUSED in output:
        raise Unprofiled("the driver lets only its administrator read counters")
    calls = list(_calls(output))
    if not calls and (error := _ERROR.search(output)):
        raise Unprofiled(f"ncu: {error[1][:300]}")
    return calls


def _program() -> str | None:
    return shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")


def _calls(output: str) -> Iterator[KernelProfile]:
    """Return the rows of the raw page: a line of names, a line of units, a line for each call."""
    lines = iter(output.splitlines())
    names = next((row for line in lines if (row := _row(line))[:1] == ["ID"]), [])
    units: dict[str, str] = {}
    for line in lines:
        row = _row(line)
        if len(row) != len(names):
            continue
        cells = dict(zip(names, row, strict=True))
        if not cells["ID"]:
            units = cells
        elif (call := _call(cells, units)) is not None:
            yield call


def _row(line: str) -> list[str]:
    """Return the cells of a line of the table; none for other output."""
    if not line.startswith('"'):
        return []
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _call(cells: Mapping[str, str], units: Mapping[str, str]) -> KernelProfile | None:
    duration = number(cells.get(DURATION))
    if duration is None:
        return None
    cycles = {name: number(cells.get(STALL.format(name))) or 0.0 for name in STALLS}
    total = sum(cycles.values())
    return KernelProfile(
        name=kernel_name(cells.get("Kernel Name", "")),
        duration_us=duration * _UNITS.get(units.get(DURATION, "")[:1], 1e-3),
        bandwidth_share=_percent(cells.get(DRAM)),
        compute_share=_percent(cells.get(SM)),
        occupancy=_percent(cells.get(OCCUPANCY)),
        registers=number(cells.get(REGISTERS)),
        shared_bytes=number(cells.get(SHARED)),
        grid=_extent(cells.get("Grid Size", "")),
        block=_extent(cells.get("Block Size", "")),
        stalls={
            name.replace("_", " "): count / total
            for name, count in cycles.items()
            if total and name != "selected"
        },
    )


def _percent(text: str | None) -> float | None:
    value = number(text)
    return None if value is None else value / 100


def _extent(text: str) -> str:
    """Format `(132, 1, 1)` as `132`, without trailing ones."""
    return dimensions(re.findall(r"\d+", text)[:3])
