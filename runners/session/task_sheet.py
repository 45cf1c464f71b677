"""Task sheet: TASK.md of one run, from the public part of its task, its hardware and its budget.

Instruction files that harnesses read by themselves, AGENTS.md and CLAUDE.md, point to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arena.catalog.models import Hardware
    from evaluation.judge.kinds import Sheet

TASK_FILE = "TASK.md"
POINTERS = ("AGENTS.md", "CLAUDE.md")
POINTER = f"Read {TASK_FILE} in this folder: it has the task, hardware, budget and tools.\n"

_SHEET = """\
{task}

## Hardware

What you submit is measured on {name} ({arch}). Your shell may run on another machine or beside
other work, so compare times by `./arena-check` only.

{hardware}

## Budget

{budget}

A spent budget ends the run in order, and your best round is judged. Time in which you wait for a
verdict, or for an overloaded model, does not count.

## Scoring

{scoring}

## Tools

- `./arena-check [note]` submits {target} and prints the verdict; `--json` prints it for programs.
- {profile}
- {compilers} and Python are on your PATH, to try things without spending a round.
{mcp}"""
_PROFILE = (
    "`./arena-profile [case]` prints where the time of the last round went; a run has a dozen."
)
_NO_PROFILE = "`./arena-profile` needs a GPU, so there is no profile of this task."
_MCP = "- `./arena-mcp` serves both, `check` and `profile`, as an MCP server on stdin and stdout.\n"
_BUDGETS = {
    "rounds": "requests for a verdict",
    "seconds": "seconds of work",
    "turns": "calls of the model",
    "tokens": "tokens, of input and output together",
    "usd": "US dollars for the model",
}


def run_files(
    words: Sheet,
    public: Mapping[str, Any],
    hardware: Hardware,
    budget: Mapping[str, float],
    *,
    mcp: bool = False,
) -> dict[str, str]:
    """Return the files of a run's workspace by name: the starter files, and the sheet.

    `words` are those of the kind of task. `mcp` says that `./arena-mcp` is there.
    """
    starter = dict(public["starter"])
    gpu = hardware.kind == "gpu"
    sheet = _SHEET.format(
        task=starter.get(TASK_FILE, "").rstrip(),
        target=words.submitted or f"`{public['target_file']}`",
        name=hardware.name,
        arch=hardware.arch or hardware.kind,
        hardware=_table(("property", "value"), _properties(hardware)),
        budget=_table(("limit", "of"), _limits(budget)),
        scoring=words.scoring,
        profile=words.no_profile or (_PROFILE if gpu else _NO_PROFILE),
        compilers="A C++ compiler, nvcc where it is installed,"
        if gpu
        else "A C++ compiler (`g++`)",
        mcp=_MCP if mcp else "",
    )
    return {**starter, TASK_FILE: sheet, **dict.fromkeys(POINTERS, POINTER)}


def _properties(hardware: Hardware) -> list[tuple[str, str]]:
    """Return the facts of a device that a kernel's author needs, and its measured peaks."""
    facts = hardware.fingerprint
    rows = []
    if "threads" in facts:
        rows.append(("cores", f"{facts['threads']}: a candidate uses no more"))
    if "multiprocessors" in facts:
        rows.append(("multiprocessors", f"{facts['multiprocessors']}"))
    if "capability" in facts:
        rows.append(("compute capability", f"{facts['capability']}"))
    if memory := facts.get("memory_bytes"):
        rows.append(("memory", _size(memory)))
    if size := facts.get("l2_bytes"):
        rows.append(("L2 cache", _size(size)))
    rows += [(f"{name} cache", _size(size)) for name, size in facts.get("caches", {}).items()]
    rows += [(name, facts[name]) for name in ("compiler", "cuda", "driver") if facts.get(name)]
    rows += [_peak(name, value) for name, value in hardware.peaks.items()]
    return rows


def _peak(name: str, value: float) -> tuple[str, str]:
    """Return a row of a measured peak, such as `l2_gbps` or `float32_tflops`."""
    subject, _, unit = name.rpartition("_")
    if unit == "gbps":
        level = subject.upper() if subject[:1] == "l" and subject[1:].isdigit() else subject
        return f"measured bandwidth, {level}", f"{value:.1f} GB/s"
    if unit == "tflops" and value < 10:
        return f"measured peak, {subject}", f"{value * 1000:.0f} GFLOP/s"
    return f"measured peak, {subject}", f"{value:.0f} TFLOP/s" if unit == "tflops" else f"{value:g}"


def _limits(budget: Mapping[str, float]) -> list[tuple[str, str]]:
    present = ((budget[name], text) for name, text in _BUDGETS.items() if budget.get(name))
    return [(f"{value:,.2f}".removesuffix(".00"), text) for value, text in present]


def _table(head: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    lines = [head, ("---", "---"), *rows]
    return "\n".join(f"| {first} | {second} |" for first, second in lines)


def _size(count: int) -> str:
    for unit, shift in (("GiB", 30), ("MiB", 20)):
        if count >= 1 << shift:
            return f"{count / (1 << shift):.0f} {unit}"
    return f"{count / 1024:.0f} KiB"
