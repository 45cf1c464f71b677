"""Plugin for `--results FILE`, which writes the outcomes of a run of these tests."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.shared import provenance, write_json
from evaluation.bench.devices import detect
from evaluation.code.cache_folder import default_cache
from evaluation.sandbox.features import isolation_features
from evaluation.types import to_json


class Results:
    """Outcome of each test, with the properties that it recorded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.tests[report.nodeid.removeprefix("tests/gpu/")] = {
                "outcome": report.outcome,
                **dict(report.user_properties),
                "seconds": round(report.duration, 2),
            }

    def pytest_sessionfinish(self) -> None:
        device = detect.device_for("gpu", default_cache())
        data = {
            "command": "make test-gpu RESULTS=FILE",
            **provenance(device),
            "walls": to_json(isolation_features()),
            "outcomes": Counter(test["outcome"] for test in self.tests.values()),
            "tests": dict(sorted(self.tests.items())),
        }
        write_json(self.path, data, indent=1)
