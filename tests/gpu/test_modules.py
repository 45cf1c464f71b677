"""Modules of live models on a GPU: tricks against their times, and honest ones beside them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.handle import ProcessHandle
from evaluation.bench.process.limits import ProcessLimits
from evaluation.bench.timing.clock import WindowClock
from evaluation.device_kind import GPU
from evaluation.errors import SubmissionError
from evaluation.kinds.module.architectures import LIBRARIES, architectures, find_task
from evaluation.kinds.module.fit import fit
from evaluation.types import Reason
from tests.evaluation.kinds.module.measuring import (
    NORM,
    ROTARY,
    WINDOWS,
    check_windows,
    measure_alone,
)

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    """Fork server of these tests alone, which imports a library of models."""
    if why := find_task(NORM)[0].missing():
        pytest.skip(why)
    with ForkServer() as shared:
        yield shared


@pytest.mark.parametrize("library", LIBRARIES)
def test_fork_opens_the_gpu_after_a_library_was_imported(library: str, tmp_path: Path) -> None:
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    limits = ProcessLimits(
        folder=tmp_path, scratch=tmp_path, memory_bytes=1 << 30, seconds=120, threads=1, kind=GPU
    )
    with ForkServer() as fork_server:
        fork_server.prepare("torch")
        fork_server.import_modules([library])
        with ProcessHandle(fork_server, limits, WindowClock()) as process:
            process.connect()


@pytest.mark.parametrize("name", ["esmfold2_pairs", "xlstm"])
def test_mutants_of_a_model_exceed_the_limits_that_honest_variants_keep(name: str) -> None:
    found = fit(architectures()[name], GPU, "cuda")
    print(name, found)
    assert (found.missed, found.missing) == ([], [])


@pytest.mark.parametrize(("task", "candidate"), [(NORM, "fused_norm"), (ROTARY, "rotary")])
def test_honest_module_alone_is_measured_as_a_graph(
    task: str, candidate: str, cache: Path, fork_server: ForkServer
) -> None:
    for phase in ("prefill", "decode"):
        timing = measure_alone(task, candidate, phase, GPU, cache, fork_server)
        print(task, phase, timing)
        assert timing is not None


@pytest.mark.parametrize(
    ("task", "candidate", "reasons"),
    [
        (NORM, "batch_in_graph", (Reason.WRONG_VALUES, Reason.STALE_OUTPUT, Reason.FORBIDDEN)),
        (NORM, "prefetched", (Reason.FORBIDDEN,)),
        (ROTARY, "first_result", (Reason.WRONG_VALUES,)),
    ],
)
def test_trick_of_a_module_alone_is_refused(
    task: str, candidate: str, reasons: tuple[Reason, ...], cache: Path, fork_server: ForkServer
) -> None:
    with pytest.raises(SubmissionError) as caught:
        measure_alone(task, f"alone/{candidate}", "prefill", GPU, cache, fork_server)
    assert caught.value.reason in reasons, caught.value


def test_honest_model_keeps_its_budget_where_inputs_arrive_late(
    cache: Path, fork_server: ForkServer
) -> None:
    late = check_windows("fused_norm", GPU, cache, fork_server)
    print("launches with late inputs checked", late)
    assert late > WINDOWS / 4


@pytest.mark.parametrize(
    "candidate",
    ["ahead_of_time", "batched", "two_of_three", "first_of_a_window", "kept_by_address"],
)
def test_forwards_of_a_window_that_run_ahead_or_not_are_refused(
    candidate: str, cache: Path, fork_server: ForkServer
) -> None:
    with pytest.raises(SubmissionError, match=r"did not use inputs|the model's error") as caught:
        check_windows(f"deployed/{candidate}", GPU, cache, fork_server)
    assert caught.value.reason is Reason.WRONG_VALUES
