"""A tiny operator and a warm cache, so that a test sees a whole verdict in seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.pipeline import Request, evaluate
from evaluation.task import Task, load_task
from evaluation.types import Report

OPERATORS = Path(__file__).parent / "operators"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def task() -> Task:
    return load_task(OPERATORS, "scaled", "cpp-to-cpp")


def judged(task: Task, source: str, cache: Path, scope: str = "round") -> Report:
    """The report on one source file."""
    return evaluate(Request(task, {task.target_file: source}, cache, scope=scope))
