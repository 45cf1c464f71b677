"""Fixtures that compile for one GPU and one dtype; other targets take most of the time."""

from __future__ import annotations

import pytest

from evaluation.code.building import hipcc, nvcc
from evaluation.code.languages import triton
from evaluation.tasks.spec import Task


@pytest.fixture
def everywhere() -> None:
    """This test is about what is tried for GPUs that are not here."""


@pytest.fixture
def every_dtype() -> None:
    """This test is about what is compiled for each dtype."""


@pytest.fixture(autouse=True)
def here_alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "everywhere" not in request.fixturenames:
        monkeypatch.setattr(nvcc, "CROSS_ARCHITECTURES", ())
        monkeypatch.setattr(hipcc, "ARCHITECTURES", ())
        monkeypatch.setattr(triton, "TRIED", {})
    if "every_dtype" not in request.fixturenames:
        monkeypatch.setattr(Task, "dtypes", property(lambda task: ["float32"]))
