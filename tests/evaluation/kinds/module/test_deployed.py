"""Tricks against the windows of a whole model, and an honest module beside them.

A processor launches one forward in each window of a verdict. These windows have several, as those
of a GPU do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import CPU
from evaluation.errors import SubmissionError
from evaluation.kinds.module import judge as production
from evaluation.kinds.module.architectures import find_task
from evaluation.kinds.module.limits import limits_of
from evaluation.kinds.module.session import LiveSession
from evaluation.kinds.module.windows import ModelWindows, check_budget
from evaluation.sandboxed.model.phases import Regime
from evaluation.types import Reason
from tests.conftest import skip_or_fail

pytestmark = [pytest.mark.slow, pytest.mark.serial, pytest.mark.timeout(900)]
CANDIDATES = Path(__file__).parent / "candidates"
TASK, LAUNCHES, WINDOWS = "llama_rms_norm", 9, 60


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    if why := find_task(TASK)[0].missing():
        skip_or_fail(why)
    with ForkServer() as shared:
        yield shared


def check(candidate: str, cache: Path, fork_server: ForkServer) -> int:
    """Run windows of a candidate and of the baseline, and check the candidate's.

    Returns: the launches checked whose inputs arrived late. Raises: SubmissionError.
    """
    architecture, task = find_task(TASK)
    limits = limits_of(architecture.name)
    assert limits is not None
    files = {task.target_file: (CANDIDATES / f"{candidate}.py").read_text()}
    with LiveSession(architecture, [task], CPU, fork_server, cache) as session:
        session.built = {task.name: production.build(files, task, cache)[0]}
        with closing(session.phase_memory("prefill", LAUNCHES)) as memory:
            pair = [
                ModelWindows(session, mode, "prefill", memory, Regime.EAGER)
                for mode in ("candidate", "library")
            ]
            for each in pair:
                each.start(LAUNCHES)
                for _ in range(WINDOWS):
                    each.window()
            pair[0].start(LAUNCHES)
            pair[0].check_staged()
            check_budget(pair[0], pair[1], limits)
        return len(pair[0].late_errors)


def test_honest_model_keeps_its_budget_where_inputs_arrive_late(
    cache: Path, fork_server: ForkServer
) -> None:
    assert check("fused_norm", cache, fork_server) > WINDOWS / 10


@pytest.mark.parametrize("candidate", ["ahead_of_time", "batched", "two_of_three"])
def test_forwards_of_a_window_that_run_ahead_are_refused(
    candidate: str, cache: Path, fork_server: ForkServer
) -> None:
    with pytest.raises(SubmissionError, match=r"did not use inputs|the model's error") as caught:
        check(f"deployed/{candidate}", cache, fork_server)
    assert caught.value.reason is Reason.WRONG_VALUES
