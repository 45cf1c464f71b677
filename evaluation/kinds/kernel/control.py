"""Self-test of a verdict: the baseline against itself, once a gate's cases are measured."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evaluation.bench.timing.estimates import speedup_of
from evaluation.bench.timing.intervals import half_width
from evaluation.bench.timing.plan import plan_for
from evaluation.types import Interval, Measurement

if TYPE_CHECKING:
    from evaluation.kinds.kernel.session import MeasurementSession

CONTROL, CONTROL_MARGIN, CONTROL_TIMES = "control", 1.5, 2
"""Name of a second process of the baseline, measured like a candidate. How far from 1 it may read,
in half widths of its 95 % interval: chance alone exceeds that in one of three hundred. How often.
"""


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
