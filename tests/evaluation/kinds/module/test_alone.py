"""Tricks against the times of a module alone, and honest modules beside them, on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import CPU
from evaluation.errors import SubmissionError
from evaluation.kinds.module import judge as production
from evaluation.kinds.module.architectures import find_task
from evaluation.kinds.module.module_times import ModuleTiming, measure_module
from evaluation.kinds.module.session import LiveSession
from evaluation.types import Reason
from tests.conftest import skip_or_fail

pytestmark = [pytest.mark.slow, pytest.mark.serial, pytest.mark.timeout(900)]
CANDIDATES = Path(__file__).parent / "candidates"
TRIES = 5
"""Measurements until a trick is refused: beside other work, late inputs come too late."""


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    if why := find_task("llama_rms_norm")[0].missing():
        skip_or_fail(why)
    with ForkServer() as shared:
        yield shared


def measured(
    name: str, candidate: str, phase: str, cache: Path, fork_server: ForkServer
) -> ModuleTiming | None:
    """Measure a candidate's module alone, without static analysis. Raises SubmissionError."""
    architecture, task = find_task(name)
    files = {task.target_file: (CANDIDATES / f"{candidate}.py").read_text()}
    with LiveSession(architecture, [task], CPU, fork_server, cache) as session:
        session.built = {task.name: production.build(files, task, cache)[0]}
        return measure_module(session, task, phase)


@pytest.mark.parametrize(
    ("task", "candidate"),
    [("llama_rms_norm", "fused_norm"), ("llama_rotary_embedding", "rotary")],
)
def test_honest_module_alone_is_measured(
    task: str, candidate: str, cache: Path, fork_server: ForkServer
) -> None:
    for phase in ("prefill", "decode"):
        assert measured(task, candidate, phase, cache, fork_server) is not None


@pytest.mark.parametrize(
    ("task", "candidate"),
    [
        ("llama_rms_norm", "ahead_of_time"),
        ("llama_rms_norm", "batch_while_clocked"),
        ("llama_rms_norm", "side_by_side"),
        ("llama_rotary_embedding", "first_result"),
    ],
)
def test_trick_of_a_module_alone_is_refused(
    task: str, candidate: str, cache: Path, fork_server: ForkServer
) -> None:
    def tried() -> None:
        for _ in range(TRIES):
            measured(task, f"alone/{candidate}", "prefill", cache, fork_server)

    with pytest.raises(SubmissionError) as caught:
        tried()
    assert caught.value.reason is Reason.WRONG_VALUES
