"""Measurements of candidates for a module of Llama, without static analysis, on any device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from evaluation.bench.process.fork_server import ForkServer
from evaluation.kinds.module import judge as production
from evaluation.kinds.module.architectures import find_task
from evaluation.kinds.module.limits import limits_of
from evaluation.kinds.module.module_times import ModuleTiming, measure_module
from evaluation.kinds.module.session import LiveSession
from evaluation.kinds.module.windows import ModelWindows, check_budget
from evaluation.sandboxed.model.phases import Regime

CANDIDATES = Path(__file__).parent / "candidates"
NORM, ROTARY = "llama_rms_norm", "llama_rotary_embedding"
LAUNCHES, WINDOWS = 9, 60
WINDOWS_BETWEEN_CHECKS = 12


def source_of(candidate: str) -> str:
    """Return a candidate's source; a trick without a module of its own gets the honest norm."""
    source = (CANDIDATES / f"{candidate}.py").read_text()
    if "class ModelNew" in source:
        return source
    return source + (CANDIDATES / "eager_norm.py").read_text()


@contextmanager
def session_of(
    task_name: str, candidate: str, kind: str, cache: Path, fork_server: ForkServer
) -> Iterator[LiveSession]:
    """Yield a session with a built candidate."""
    architecture, task = find_task(task_name)
    files = {task.target_file: source_of(candidate)}
    with LiveSession(architecture, [task], kind, fork_server, cache) as session:
        session.built = {task.name: production.build(files, task, cache)[0]}
        yield session


def measure_alone(
    task_name: str, candidate: str, phase: str, kind: str, cache: Path, fork_server: ForkServer
) -> ModuleTiming | None:
    """Measure a candidate's module alone. Raises SubmissionError."""
    with session_of(task_name, candidate, kind, cache, fork_server) as session:
        return measure_module(session, session.tasks[0], phase)


def check_windows(
    candidate: str, kind: str, cache: Path, fork_server: ForkServer, windows: int = WINDOWS
) -> int:
    """Run windows of several forwards with a candidate and without, and check the candidate's.

    Checks come between windows too, so that a trick is refused as soon as it shows.

    Returns: the launches checked whose inputs arrived late. Raises: SubmissionError.
    """
    with session_of(NORM, candidate, kind, cache, fork_server) as session:
        limits = limits_of(session.architecture.name, kind)
        assert limits is not None
        with closing(session.phase_memory("prefill", LAUNCHES)) as memory:
            pair = [
                ModelWindows(session, mode, "prefill", memory, Regime.EAGER)
                for mode in ("candidate", "library")
            ]
            for each in pair:
                each.start(LAUNCHES)
            for _ in range(windows // WINDOWS_BETWEEN_CHECKS):
                for each in pair:
                    for _ in range(WINDOWS_BETWEEN_CHECKS):
                        each.window()
                pair[0].check_staged()
                check_budget(pair[0], pair[1], limits)
        return len(pair[0].late_errors)
