"""Results of a test run, with the judge and device that produced them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evaluation.bench.devices import detect
from tests.gpu.results import Results


def report(name: str, when: str, outcome: str, **properties: object) -> Any:
    return SimpleNamespace(
        nodeid=f"tests/gpu/{name}", when=when, outcome=outcome, duration=1.234,
        user_properties=list(properties.items()),
    )  # fmt: skip


def test_results_have_one_entry_per_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = SimpleNamespace(fingerprint={"name": "GPU"}, peaks={"memory_gbps": 1.0}, vendor="none")
    monkeypatch.setattr(detect, "device_for", lambda kind, cache: device)
    monkeypatch.setattr(detect, "state", lambda device: {"celsius": 38})
    results = Results(tmp_path / "new" / "results.json")
    for when in ("setup", "call", "teardown"):
        results.pytest_runtest_logreport(report("a.py::a[x]", when, "passed", got="failed/CRASH"))
    results.pytest_runtest_logreport(report("b.py::b", "setup", "failed"))
    results.pytest_sessionfinish()
    data = json.loads(results.path.read_text())
    assert data["tests"] == {
        "a.py::a[x]": {"outcome": "passed", "got": "failed/CRASH", "seconds": 1.23},
        "b.py::b": {"outcome": "failed", "seconds": 1.23},
    }
    assert data["outcomes"] == {"passed": 1, "failed": 1}
    assert data["device"] == {"name": "GPU"} and len(data["judge"]["source"]) == 12
