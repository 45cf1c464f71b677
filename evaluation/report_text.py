"""Verdicts as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evaluation.types import GateResult, Interval, Report, Split, Verdict

if TYPE_CHECKING:
    from evaluation.admission.admit import Admission, Attempt

_MARKS = {Verdict.PASSED: "+", Verdict.SKIPPED: "-"}


def gate(result: GateResult) -> str:
    """One line for a gate, its seen cases below it; for the owner of the machine, what broke."""
    mark = _MARKS.get(result.verdict, "x")
    reason = f" {result.reason}" if result.reason else ""
    rule = f" ({result.rule})" if result.rule else ""
    verdict = f"{result.verdict}{reason}{rule}"
    seconds = result.duration_ms / 1e3
    head = f"{mark} {result.gate:<15} {verdict}  {result.message}  [{seconds:.1f} s]"
    if "error" in result.private:
        head += f"\n    {result.private['error']}"
    seen = [m for m in result.measurements if m.split is Split.SEEN]
    if not seen:
        return head
    rows = [
        ("case", "candidate", "baseline", "speedup", "95 % interval", "GB/s", "GFLOP/s", "roofline")
    ]
    rows += [
        (
            m.case,
            f"{m.candidate_us:.2f} us{' singly' if m.captured is False else ''}",
            f"{m.baseline_us:.2f} us {m.baseline}",
            f"{m.speedup:.3f}x{' noisy' if m.noisy else ''}",
            f"[{m.low:.3f}, {m.high:.3f}]",
            f"{m.gbps:.1f}",
            f"{m.tflops * 1e3:.1f}",
            f"{m.roofline_share:.0%}",
        )
        for m in seen
    ]
    return head + "\n" + _columns(rows)


def report(result: Report) -> str:
    """The summary of an evaluation."""
    lines = [
        "",
        f"{result.task}: {result.verdict}{f' ({result.reason})' if result.reason else ''}",
        f"  seen     {_interval(result.seen)}",
        f"  unseen   {_interval(result.unseen)}",
    ]
    if result.roofline_share is not None:
        lines.append(f"  roofline {result.roofline_share:.0%} of what this device can do")
    spent = ", ".join(f"{name} {value:.1f}" for name, value in result.seconds.items())
    lines += [f"  AgentKernelArena score {result.aka_score:.0f}", f"  seconds: {spent}"]
    return "\n".join(lines)


def attempt(tried: Attempt) -> str:
    """One line on an answer that a task was tried with."""
    told = f"{tried.verdict} {tried.reason or ''}".strip()
    as_it_should = "as it should" if tried.as_expected else "which it should not"
    return f"    {tried.role:6}  {tried.name:24}  {told}, {as_it_should}, in {tried.seconds:.1f} s"


def admission(result: Admission) -> str:
    """Whether a task is admitted, and why not."""
    lines = [
        f"    an honest answer's speedup, measured again, over that before: "
        f"{_interval(result.repeat)}",
        *(f"  ! {problem}" for problem in result.problems),
        f"{result.task}: {'admitted' if result.admitted else 'not admitted'}",
    ]
    return "\n".join(lines)


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return "not timed"
    return f"{interval.speedup:.3f}x [{interval.low:.3f}, {interval.high:.3f}]"


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "    "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
