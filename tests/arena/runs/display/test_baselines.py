from __future__ import annotations

import pytest

from arena.catalog.models import TaskVersion
from arena.runs.display.baselines import timed_baselines
from arena.runs.models import GateResult
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


def test_timed_baselines_baseline_with_wrong_values_has_a_reason_and_no_time(start, client):
    why = "case large: out[39886, 0] is wrong: expected 0.5, got 0.25"
    judged(start, 12.0, 8.0)
    gate_result = GateResult.objects.get(gate="performance")
    detail = {"baseline": "eager", "baseline_us": {"eager": 12.0}, "left_out": {"compile": why}}
    gate_result.detail = detail
    gate_result.save()
    found = timed_baselines(TaskVersion.objects.get())
    assert [(timed.name, timed.us, timed.left_out) for timed in found] == [
        ("eager", 12.0, ""),
        ("compile", None, why),
    ]
    page = client.get("/tasks/relu/cpp-to-cpp/").content.decode()
    assert f"left out: {why}" in page


def test_timed_baselines_single_baseline_or_hidden_run_returns_none(start, client):
    finished(start())
    judged(start, 12.0, 8.0, visibility="staff")
    assert told() == []
    assert "torch.compile" not in client.get("/tasks/relu/cpp-to-cpp/").content.decode()
