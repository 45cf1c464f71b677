"""Self-tests of a verdict: the baseline against itself, and without the candidate.

They run after a gate's cases are measured, and end the candidate.
"""

from __future__ import annotations

import dataclasses
import math
import secrets
import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from evaluation.bench.timing.estimates import robust_spread, speedup_of
from evaluation.bench.timing.intervals import half_width
from evaluation.bench.timing.plan import plan_for
from evaluation.types import Case, Interval, Measurement

if TYPE_CHECKING:
    from evaluation.kinds.kernel.session import MeasurementSession

CONFIRMED, CONFIRM_WINDOWS = 2, 11
"""Cases drawn in secret on which the baseline is timed again, and its windows on each."""
SLOWED, SLOWED_TIMES = 0.02, 3
"""Share by which a baseline is slower beside the candidate, beyond the error of the speedup, and
how often in a row that must be seen before it counts.
"""
CONTROL, CONTROL_MARGIN, CONTROL_TIMES = "control", 1.5, 2
"""Name of a second process of the baseline, measured like a candidate. How far from 1 it may read,
in half widths of its 95 % interval: chance alone exceeds that in one of three hundred. How often.
"""


def confirm_baseline(
    session: MeasurementSession,
    measured: Sequence[Measurement],
    measure_again: Callable[[Case], Measurement],
) -> tuple[list[Measurement], int]:
    """End the candidate, and time the baseline again where it may have been slowed.

    That is on secretly drawn cases, and on all once one of these was slowed. A time is compared
    with that of another moment, and other work on the machine may have slowed candidate and
    baseline at one of them. So a case that seems slowed is measured again, with a new process of
    the candidate, and that measurement counts. Where the baseline is slowed each time, by more than
    chance, the faster time of the baseline counts.

    Returns: the measurements, and the number of those with a baseline that was slowed.
    """
    session.end_process("candidate")
    queue = secrets.SystemRandom().sample(measured, min(CONFIRMED, len(measured)))
    confirmed: dict[str, Measurement] = {}
    slowed = 0
    while queue:
        found = queue.pop()
        case = session.measured_cases[found.case]
        share = _unslowed_share(session, case, found)
        for _ in range(SLOWED_TIMES - 1):
            if share < 1:
                found = measure_again(case)
                session.end_process("candidate")
                share = max(share, _unslowed_share(session, case, found))
        confirmed[case.name] = _with_faster_baseline(found, share)
        if share < 1:
            slowed += 1
            queue += [m for m in measured if m.case not in confirmed and m not in queue]
    return [confirmed.get(m.case, m) for m in measured], slowed


def _unslowed_share(session: MeasurementSession, case: Case, measured: Measurement) -> float:
    """Return the baseline's time without the candidate as a share of that beside it.

    It is 1 unless the baseline is faster by more than chance. A processor that changes its clock
    rate has fast windows at both moments, so the first quartile must be faster too.
    """
    plan = plan_for(session.task.kind, final=False)
    with session.bench(case, plan, (measured.baseline,)) as (timer,):
        alone = [timer.window() for _ in range(CONFIRM_WINDOWS)]
    beside = session.baseline_ns[case.name]
    share = max(
        statistics.median(alone) / statistics.median(beside),
        statistics.quantiles(alone)[0] / statistics.quantiles(beside)[0],
    )
    spread = robust_spread([math.log(ns) for ns in alone])
    own = 2 * spread * math.sqrt(math.pi / 2 / len(alone))
    chance = math.hypot(measured.speedup / measured.low - 1, own) + SLOWED
    return share if share < 1 - chance else 1.0


def _with_faster_baseline(measured: Measurement, share: float) -> Measurement:
    """Return a measurement with this share of its baseline's time."""
    if share == 1:
        return measured
    return dataclasses.replace(
        measured,
        baseline_us=measured.baseline_us * share,
        speedup=measured.speedup * share,
        low=measured.low * share,
        high=measured.high * share,
    )


def measure_control(session: MeasurementSession, measured: Sequence[Measurement]) -> Interval:
    """Measure a second process of the baseline like a candidate, on a case drawn in secret.

    It reads 1 where the machine can measure. It ends the candidate.

    Raises: Inconclusive where it reads another speedup each time.
    """
    session.end_process("candidate")
    drawn = secrets.choice(measured)
    case, plan = session.measured_cases[drawn.case], plan_for(session.task.kind, final=False)
    session.add_build(CONTROL, drawn.baseline)
    text = ""
    for _ in range(CONTROL_TIMES):
        with session.bench(case, plan, (CONTROL, drawn.baseline)) as (control, against):
            found = session.measure_blocks(control, against, plan)
        session.end_process(CONTROL)
        text = found.text
        if len(found.counted) >= plan.min_blocks:
            speedup = speedup_of(found.counted, plan.spread)
            if abs(math.log(speedup.speedup)) <= CONTROL_MARGIN * half_width(speedup):
                return speedup
            text = (
                f"the baseline against itself read {speedup.speedup:.3f}x "
                f"[{speedup.low:.3f}, {speedup.high:.3f}]"
            )
        session.disturbance.wait()
    raise session.disturbance.inconclusive(text)
