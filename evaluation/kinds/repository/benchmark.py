"""Times that a repository's own benchmark reports: the suite's own clock.

The command prints one JSON line, with the nonce of its process and microseconds for each case:

    {"nonce": "5f0c...", "times_us": {"small": 12.5, "large": 480.0}}

The code of a candidate runs in the process that takes these times, so it could write any number.
"""

from __future__ import annotations

import json
import secrets
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from evaluation.bench.timing.disturbance import QUIET_SHARE, Disturbance, OtherWork
from evaluation.bench.timing.estimates import Block, Blocks, speedup_of
from evaluation.bench.timing.intervals import half_width
from evaluation.bench.timing.plan import CPU_SPREAD
from evaluation.errors import Broken, SubmissionError
from evaluation.kinds.repository.builds import Checkout, ended
from evaluation.kinds.repository.task import BENCHMARK, NONCE, SEED
from evaluation.sandbox.launch import Completed
from evaluation.types import Measurement, Reason, Split

MAX_CASES = 100
MAX_NAME = 100
MIN_US = 0.001
"""A nanosecond, the unit of the finest clocks."""
SHOWN = 300
"""Characters of a line that a message shows."""

Times = Mapping[str, float]
"""Microseconds by the names of cases."""


@dataclass(frozen=True)
class Extent:
    """Blocks of four processes: candidate, baseline, baseline, candidate.

    Measuring ends between `min_blocks` and `max_blocks`, when each interval is narrow enough or
    `max_seconds` are over.
    """

    min_blocks: int
    max_blocks: int
    narrow: float
    max_seconds: float


ROUND = Extent(3, 6, 0.025, 60.0)
FINAL = Extent(5, 12, 0.015, 180.0)


def seed() -> str:
    """Return a new seed, from which commands can draw their inputs."""
    return str(secrets.randbits(31))


def times(checkout: Checkout, seed_of_verdict: str) -> Times:
    """Run the benchmark once. Raises SubmissionError."""
    nonce = secrets.token_hex(16)
    command = checkout.task.commands[BENCHMARK]
    started = time.perf_counter()
    completed = checkout.run(command, {NONCE: nonce, SEED: seed_of_verdict})
    took_us = (time.perf_counter() - started) * 1e6
    if completed.returncode:
        reason = failure(completed)
        raise SubmissionError(reason, f"the benchmark failed: {ended(completed)}{tail(completed)}")
    return parse(completed.stdout, nonce, took_us)


def failure(completed: Completed) -> Reason:
    """Return the class of failure of a command that did not succeed."""
    if completed.exceeded:
        memory = completed.exceeded.name == "memory_bytes"
        return Reason.OUT_OF_MEMORY if memory else Reason.TIMEOUT
    return Reason.CRASH if completed.returncode > 128 else Reason.CALL_ERROR


def tail(completed: Completed) -> str:
    """Return the last line of a command's output, for a message."""
    lines = completed.stdout.strip().splitlines()
    return f": {lines[-1][:SHOWN]}" if lines else ""


def parse(text: str, nonce: str, took_us: float) -> Times:
    """Return the times of the one JSON line, of a command that took `took_us` as a whole.

    Raises: SubmissionError(PROTOCOL).
    """
    found = [line for line in map(_object, text.splitlines()) if line is not None]
    if len(found) != 1:
        count = f"{len(found)} JSON lines" if found else "no JSON line"
        _refuse(f'the benchmark printed {count}; print one: {{"nonce": ..., "times_us": ...}}')
    (line,) = found
    if line.get("nonce") != nonce:
        _refuse(f"the benchmark's nonce is not that of {NONCE}; print what the variable holds")
    cases = line.get("times_us")
    if not isinstance(cases, dict) or not 0 < len(cases) <= MAX_CASES:
        _refuse(f"the benchmark's `times_us` must be an object of 1 to {MAX_CASES} cases")
    for name, value in cases.items():
        if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
            _refuse(f"names of cases have 1 to {MAX_NAME} characters that can be printed")
        if not (isinstance(value, float) and MIN_US <= value <= took_us):
            _refuse(
                f"case {name}: its time must be a number of microseconds, at least {MIN_US:g} and "
                f"at most the {took_us:.0f} that the whole command took"
            )
    return dict(cases)


def _object(line: str) -> dict[str, Any] | None:
    """Return the object of a line with a nonce or times; None for any other line."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(line, parse_int=float)  # an integer of 400 digits is infinite
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and {"nonce", "times_us"} & found.keys() else None


def _refuse(message: str) -> NoReturn:
    raise SubmissionError(Reason.PROTOCOL, message)


def blocks(
    candidate: Callable[[], Times],
    baseline: Callable[[], Times],
    extent: Extent,
    disturbance: Disturbance,
    other_work: Callable[[], OtherWork] = OtherWork,
) -> dict[str, Blocks]:
    """Measure blocks of all cases.

    A block during which other processes took the cores is left out, and measuring goes on when the
    machine is quiet. Where the disturbance is tolerant it counts.

    Raises: SubmissionError where the candidate has other cases than the baseline; Broken where
    those of the baseline change; Inconclusive where the machine stays busy.
    """
    found: dict[str, list[Block]] = {}
    count = disturbed = 0
    ends = time.monotonic() + extent.max_seconds
    while count < extent.max_blocks:
        others, started = other_work(), time.monotonic()
        a1, b1, b2, a2 = candidate(), baseline(), baseline(), candidate()
        cases = (found or b1).keys()
        if b1.keys() != cases or b2.keys() != cases:
            raise Broken("of the unchanged repository, the benchmark has other cases each time")
        for each in (a1, a2):
            if each.keys() != cases:
                _refuse(f"the cases are {_names(each)}; those of the baseline {_names(b1)}")
        if (share := others.share()) > QUIET_SHARE:
            disturbed += 1
            if not disturbance.tolerant:
                seen = f"other work took {100 * share:.0f} % of the cores"
                disturbance.require_quiet(seen, time.monotonic() - started)
                continue
        count += 1
        for name in b1:
            block = Block((a1[name] + a2[name]) / 2, (b1[name] + b2[name]) / 2)
            found.setdefault(name, []).append(block)
        if count >= extent.min_blocks and (_is_narrow(found, extent) or time.monotonic() > ends):
            break
    return {name: Blocks(counted, disturbed) for name, counted in found.items()}


def _names(found: Times) -> str:
    return ", ".join(sorted(found))[:SHOWN]


def _is_narrow(found: Mapping[str, Sequence[Block]], extent: Extent) -> bool:
    widths = (half_width(speedup_of(blocks, CPU_SPREAD)) for blocks in found.values())
    return max(widths) < extent.narrow


def measurements(found: Mapping[str, Blocks], tolerant: bool) -> Iterator[Measurement]:
    """Yield the measurement of each case; `tolerant` says that disturbed blocks are among them."""
    for name, blocks in found.items():
        measured = blocks.counted
        speedup = speedup_of(measured, CPU_SPREAD)
        yield Measurement(
            case=name,
            split=Split.SEEN,
            kind="repository",
            dtype="",
            symbols={},
            baseline="repository",
            candidate_us=statistics.median(block.candidate for block in measured),
            baseline_us=statistics.median(block.baseline for block in measured),
            speedup=speedup.speedup,
            low=speedup.low,
            high=speedup.high,
            blocks=len(measured),
            noisy=blocks.is_noisy(speedup, tolerant),
        )
