"""Fixtures of the judge's tests: a tiny operator and a warm cache, for verdicts in seconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from evaluation.bench.memory import ring
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.timing import plan as plans
from evaluation.judge.request import Request
from evaluation.kinds.kernel import judge as kernel_judge
from evaluation.kinds.kernel.judge import evaluate
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.loaded_code import run_here
from evaluation.tasks.spec import Task
from evaluation.types import Report
from tests import kept_builds

OPERATORS = Path(__file__).parent / "operators"

run_here()  # tests call references directly; verdicts start processes for them all the same


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def cache_with_builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache in which the builds of earlier runs are found."""
    cache = tmp_path_factory.mktemp("cache-with-builds")
    kept_builds.link(cache)
    return cache


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Fork server of all tests, which imports torch and its compiler once, as that of a judge."""
    with ForkServer() as shared:
        shared.prepare("torch")
        yield shared


@pytest.fixture
def shared_fork_server(monkeypatch: pytest.MonkeyPatch, fork_server: ForkServer) -> None:
    """Use the shared fork server for every verdict."""
    monkeypatch.setattr(kernel_judge, "ForkServer", lambda: nullcontext(fork_server))


@pytest.fixture
def task() -> Task:
    return load_task(OPERATORS, "scaled", "cpp-to-cpp")


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few and small windows."""
    monkeypatch.setattr(ring, "MAX_SLOTS", 32)
    plan = dataclasses.replace(plans.QUICK_PLAN, min_blocks=2, max_blocks=2)
    monkeypatch.setattr(plans, "FINAL_PLAN", plan)
    monkeypatch.setattr(plans, "QUICK_PLAN", plan)


def judged(task: Task, source: str, cache: Path, scope: str = "round") -> Report:
    """Return the report on one source file."""
    return evaluate(Request(task, {task.target_file: source}, cache, scope=scope))
