from __future__ import annotations

import pytest

from arena.catalog.models import TaskVersion
from arena.runs.display.baselines import timed_baselines
from tests.arena.factories import finished, gate, measurement

pytestmark = pytest.mark.django_db


def judged(start, eager: float, compiled: float, **run) -> None:
    times = {"eager": eager, "compile": compiled}
    detail = {"baseline": min(times, key=lambda name: times[name]), "baseline_us": times}
    gates = [gate("performance", detail=detail, measurements=(measurement(),))]
    finished(start(**run), gates=gates)
    version = TaskVersion.objects.get()
    version.public["baseline"] = "torch"
    version.save()


def told() -> list[tuple[str, float, float, bool]]:
    found = timed_baselines(TaskVersion.objects.get())
    return [(timed.name, timed.us, timed.speedup, timed.beaten) for timed in found]


def test_timed_baselines_two_baselines_are_shown(start, client):
    judged(start, 12.0, 8.0)
    assert told() == [("eager", 12.0, 1.0, False), ("compile", 8.0, 1.5, True)]
    page = client.get("/tasks/relu/cpp-to-cpp/").content.decode()
    assert "torch.compile" in page and "1.50" in page and "Test CPU" in page


def test_timed_baselines_uses_newest_times(start):
    judged(start, 12.0, 8.0)
    judged(start, 10.0, 20.0)
    assert told() == [("eager", 10.0, 1.0, True), ("compile", 20.0, 0.5, False)]


def test_timed_baselines_single_baseline_or_hidden_run_returns_none(start, client):
    finished(start())
    judged(start, 12.0, 8.0, visibility="staff")
    assert told() == []
    assert "torch.compile" not in client.get("/tasks/relu/cpp-to-cpp/").content.decode()
