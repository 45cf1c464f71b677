"""Fixtures of tests on live models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evaluation.bench.process.fork_server import ForkServer
from evaluation.kinds.module import judge as production
from evaluation.kinds.module.architectures import find_task
from evaluation.types import GateName, GateResult, Verdict
from tests.conftest import skip_or_fail


@pytest.fixture(scope="module")
def model_server() -> Iterator[ForkServer]:
    """Fork server of a file's tests: models' libraries import Triton, which then only compiles."""
    for name in ("llama_rms_norm", "dit_gelu"):
        if why := find_task(name)[0].missing():
            skip_or_fail(why)
    with ForkServer() as shared:
        yield shared


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge without static analysis, as tricks are."""

    def passed(*_: object) -> GateResult:
        return GateResult(GateName.INTEGRITY, Verdict.PASSED)

    monkeypatch.setattr(production, "_integrity", passed)
