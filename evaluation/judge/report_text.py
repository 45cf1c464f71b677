"""Verdicts, profiles and devices as text for a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from evaluation.types import (
    GateName,
    GateResult,
    Interval,
    KernelProfile,
    Profile,
    Report,
    Split,
    TaskCheck,
    Verdict,
)

if TYPE_CHECKING:
    from evaluation.bench.devices.device import Device
    from evaluation.judge.admission import Admission, Attempt

AKA_SCORE = (
    "by that benchmark's formula, to compare with it: "
    "120 + 100 x mean speedup; 20 if wrong, 0 if not compiled"
)
_MARKS = {Verdict.PASSED: "+", Verdict.SKIPPED: "-", Verdict.INCONCLUSIVE: "?"}


_CLEAR_LINE = "\r\x1b[K"


class ProgressLine:
    """The gate and case that are judged now, on a line of a terminal that each write replaces."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._gate: GateName | None = None
        self._began = 0.0

    def show(self, gate: GateName, done: int, total: int) -> None:
        """Show that case number `done` of `total` begins, and the seconds left of its gate."""
        if gate is not self._gate:
            self._gate, self._began = gate, time.monotonic()
        elapsed = time.monotonic() - self._began
        left = f", {elapsed / done * (total - done):.0f} s left" if done else ""
        self._write(f"  {gate}: case {done + 1} of {total}{left}")

    def clear(self) -> None:
        self._write("")

    def _write(self, text: str) -> None:
        self._terminal.write(_CLEAR_LINE + text)
        self._terminal.flush()


def table(rows: Sequence[Sequence[str]], indent: int = 2, right_from: int | None = None) -> str:
    """Return rows as aligned columns; those from number `right_from` on are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = len(widths) if right_from is None else right_from
    return "\n".join(
        (
            " " * indent
            + "  ".join(
                cell.ljust(width) if column < left else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
        ).rstrip()
        for row in rows
    )


def gate(result: GateResult) -> str:
    """Return one line for a gate, its seen cases below it, and the error of a broken one."""
    mark = _MARKS.get(result.verdict, "x")
    reason = f" {result.reason}" if result.reason else ""
    rule = f" ({result.rule})" if result.rule else ""
    verdict = f"{result.verdict}{reason}{rule}"
    seconds = result.took_ms / 1e3
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
            "" if m.gbps is None else f"{m.gbps:.1f}",
            "" if m.tflops is None else f"{m.tflops * 1e3:.1f}",
            "" if m.roofline_share is None else f"{m.roofline_share:.0%}",
        )
        for m in seen
    ]
    return f"{head}\n{table(rows, indent=4)}"


def report(result: Report) -> str:
    """Return the summary of an evaluation."""
    seconds = ", ".join(f"{name} {value:.1f}" for name, value in result.seconds.items())
    rows = [("seen", interval(result.seen)), ("unseen", interval(result.unseen))]
    if result.roofline_share is not None:
        rows.append(("roofline", f"{result.roofline_share:.0%} of this device's measured peak"))
    if result.aka_score is not None:
        rows.append(("AgentKernelArena score", f"{result.aka_score:.0f} {AKA_SCORE}"))
    rows.append(("seconds", seconds))
    reason = f" ({result.reason})" if result.reason else ""
    return f"\n{result.task}: {result.verdict}{reason}\n{table(rows)}"


def attempt(judged: Attempt | TaskCheck) -> str:
    """Return one line on an implementation judged for an admission, or on a check of its task."""
    if isinstance(judged, TaskCheck):
        verdict = "ok" if judged.ok else "not ok"
        return f"    check   {judged.name:24}  {verdict}: {judged.message}"
    verdict = f"{judged.verdict} {judged.reason or ''}".strip()
    expected = "as expected" if judged.as_expected else "not expected"
    return f"    {judged.role:6}  {judged.name:24}  {verdict}, {expected}, {judged.seconds:.1f} s"


def admission(result: Admission) -> str:
    """Return the conclusion of an admission and its problems."""
    lines = [
        f"    ratio of a speedup to itself, measured twice: {interval(result.repeat)}",
        f"    ratio of that on sizes near the public ones to it: {interval(result.retained)}",
        *(f"  ! {problem}" for problem in result.problems),
        f"{result.task}: {'admitted' if result.admitted else 'not admitted'}",
    ]
    return "\n".join(lines)


def interval(found: Interval | None) -> str:
    """Return a speedup with its interval."""
    if found is None:
        return "not timed"
    return f"{found.speedup:.3f}x [{found.low:.3f}, {found.high:.3f}]"


def profile(result: Profile) -> str:
    """Return the kernels of a profile, without the columns that are unknown for all of them."""
    lines = []
    if result.kernels:
        columns = zip(*(_KERNEL_COLUMNS, *map(_kernel_row, result.kernels)), strict=True)
        known = [column for column in columns if any(column[1:])]
        rows = list(zip(*known, strict=True))
        lines += [f"case {result.case}, by {result.tool}", table(rows, right_from=1)]
    for kernel in result.kernels:
        if kernel.stalls:
            stalls = (f"{reason} {share:.0%}" for reason, share in kernel.stalls.items())
            lines.append(f"  {kernel.name} stalls: {', '.join(stalls)}")
    return "\n".join(filter(None, (*lines, result.message)))


_KERNEL_COLUMNS = (
    "kernel", "calls", "us", "DRAM", "SM", "occupancy", "registers", "shared", "grid", "block",
)  # fmt: skip


def _kernel_row(kernel: KernelProfile) -> tuple[str, ...]:
    shares = (kernel.bandwidth_share, kernel.compute_share, kernel.occupancy)
    return (
        kernel.name,
        str(kernel.calls),
        f"{kernel.duration_us:.2f}",
        *("" if share is None else f"{share:.1%}" for share in shares),
        *("" if n is None else f"{n:.0f}" for n in (kernel.registers, kernel.shared_bytes)),
        kernel.grid,
        kernel.block,
    )


def devices(found: Sequence[Device]) -> str:
    """Return the devices, numbered from 0, with their measured peaks."""
    return "\n".join(
        line for number, device in enumerate(found) for line in _device_lines(number, device)
    )


def _device_lines(number: int, device: Device) -> Iterator[str]:
    cpu = device.kind == "cpu"
    cores = f"{device.cores} {'cores' if cpu else 'multiprocessors'}"
    memory = f"{device.memory_bytes / 2**30:.0f} GiB"
    yield f"{number}  {device.slug}  {device.name} ({device.arch}), {cores}, {memory}"
    yield f"  queue      {device.queue}"
    if device.uuid:
        yield f"  uuid       {device.uuid}"
    if device.unjudged:
        yield f"  {device.unjudged}"
    if cpu:
        yield f"  candidates run on {device.threads} of its cores"
    for level in device.levels:
        yield f"  {level.name:<10} {_size(level.bytes):>9}  {level.gbps:8.1f} GB/s"
    for name, rate in device.peaks.items():
        if name.endswith("_tflops"):
            yield f"  {name.removesuffix('_tflops'):<10} {rate * 1e3:19.1f} GFLOP/s"
    features = ", ".join(f"{name} {value}" for name, value in device.isolation.items())
    yield f"  isolation  {features}"


def _size(count: int) -> str:
    if count == 0:
        return ""
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"
