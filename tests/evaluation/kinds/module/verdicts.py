"""Verdicts of the CPU on candidates for modules of live models."""

from __future__ import annotations

from pathlib import Path

from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import CPU
from evaluation.kinds.module import judge as production
from evaluation.kinds.module.architectures import find_task
from evaluation.kinds.module.composition import Part
from evaluation.sandboxed.model.phases import Extent, extent
from evaluation.types import Report, Verdict
from tests.costs import used as processor_seconds
from tests.evaluation.kinds.module.measuring import CANDIDATES

EAGER, FINAL = (extent(CPU, final, "llama") for final in (False, True))
MAX_SECONDS = 90
"""Processor time of one verdict, which other work on the machine does not lengthen."""


def judged(
    name: str, candidate: str, cache: Path, fork_server: ForkServer, measured: Extent = EAGER
) -> Report:
    """Return the report on a candidate of this name. Its judge must not break."""
    architecture, task = find_task(name)
    part = Part(task, {task.target_file: (CANDIDATES / f"{candidate}.py").read_text()})
    before = processor_seconds()
    report = production.judge(architecture, [part], CPU, cache, measured, fork_server=fork_server)
    took = processor_seconds() - before
    print(f"{name} {candidate}: {report.message} [{took:.1f} s of processor time]")
    assert took < MAX_SECONDS
    assert report.verdict is not Verdict.BROKEN, report.gates[-1].private
    return report
