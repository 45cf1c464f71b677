"""What each test came to is kept, with what judged."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evaluation.devices import detect
from tests.gpu.results import Results


def report(name: str, when: str, outcome: str, **told: object) -> Any:
    return SimpleNamespace(
        nodeid=f"tests/gpu/{name}", when=when, outcome=outcome, duration=1.234,
        user_properties=list(told.items()),
    )  # fmt: skip


def test_a_test_is_kept_once_by_its_call_or_by_what_went_wrong_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SimpleNamespace(fingerprint={"name": "GPU"}, peaks={"memory_gbps": 1.0}, vendor="none")
    monkeypatch.setattr(detect, "device_for", lambda kind, cache: device)
    monkeypatch.setattr(detect, "state", lambda device: {"celsius": 38})
    results = Results(tmp_path / "new" / "results.json")
    for when in ("setup", "call", "teardown"):
        results.pytest_runtest_logreport(report("a.py::a[x]", when, "passed", got="failed/CRASH"))
    results.pytest_runtest_logreport(report("b.py::b", "setup", "failed"))
    results.pytest_sessionfinish()
    told = json.loads(results.path.read_text())
    assert told["tests"] == {
        "a.py::a[x]": {"outcome": "passed", "got": "failed/CRASH", "seconds": 1.23},
        "b.py::b": {"outcome": "failed", "seconds": 1.23},
    }
    assert told["outcomes"] == {"passed": 1, "failed": 1}
    assert told["device"] == {"name": "GPU"} and len(told["judge"]["source"]) == 12
