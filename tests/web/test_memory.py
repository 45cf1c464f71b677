"""Speed against memory: the frontier of a task's kernels, its picture and the board's column."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from arena.leaderboard.charts import memory_chart
from arena.leaderboard.kernels.memory import MemoryFrontier, memory_frontiers, points_of
from arena.runs.models import Measurement
from tests.arena.factories import HIDDEN_CASE, finished

MIB = 1 << 20


def run(low, memory, baseline=64 * MIB, **changes):
    values = {"unseen_low": low, "unseen_speedup": low * 1.05, "unseen_high": low * 1.1}
    values |= {"peak_memory": memory, "baseline_memory": baseline, "noisy": False, "label": "mine"}
    return SimpleNamespace(**{**values, **changes})


def frontier(*runs):
    return MemoryFrontier(SimpleNamespace(name="H200", slug="h200"), points_of(runs))


def remember(run, seen, unseen=None):
    """Give the cases of the run's final verdict a memory in MiB, and the baseline one more."""
    cases = Measurement.objects.filter(evaluation__submission__run=run)
    for split, size in (("seen", seen), ("unseen", unseen)):
        if size is not None:
            sizes = {"memory_bytes": size * MIB, "baseline_memory_bytes": (size + 1) * MIB}
            cases.filter(split=split).update(**sizes)


def test_frontier_has_the_kernels_that_none_beats_in_speed_and_memory():
    small, fast, beaten = run(1.2, 0), run(2.0, 256 * MIB), run(1.9, 300 * MIB)

    found = frontier(beaten, fast, small)

    assert [point.run for point in found.points] == [small, fast, beaten]
    assert [point.run for point in found.best] == [small, fast]


def test_equal_memory_leaves_the_faster_kernel_on_the_frontier():
    slow, fast = run(1.2, MIB), run(1.5, MIB)

    assert [point.run for point in frontier(slow, fast).best] == [fast]


def test_chart_has_the_frontier_other_kernels_and_the_baseline():
    chart = memory_chart(frontier(run(2.0, 256 * MIB), run(1.9, 300 * MIB), run(1.2, 0)))

    best, others, baseline = chart["data"]
    assert best["x"] == [1.0, 256.0] and best["text"][1] == "mine, 256\u202fMiB"
    assert others["x"] == [300.0]
    assert baseline["x"] == [64.0] and baseline["y"] == [1.0]
    low, high = chart["layout"]["xaxis"]["range"]
    assert 10**low < 1.0 and 10**high > 300.0
    assert chart["layout"]["xaxis"]["ticktext"][:2] == ["1 MiB", "4 MiB"]


def test_chart_without_a_known_baseline_has_the_kernels_alone():
    chart = memory_chart(frontier(run(1.2, MIB, baseline=None)))

    assert [trace["name"] for trace in chart["data"]] == ["on the frontier"]


@pytest.mark.django_db
def test_peak_memory_is_that_of_the_public_case_that_takes_most(client, start, hardware, task):
    plain, measured = finished(start()), finished(start())
    remember(measured, 256, unseen=999)

    (found,) = memory_frontiers(task.version)

    (point,) = found.points
    assert point.run == measured != plain and found.device == hardware
    assert (point.memory, point.baseline) == (256 * MIB, 257 * MIB)
    page = client.get(task.get_absolute_url()).content.decode()
    assert "Speed against memory" in page and "257\u202fMiB" in page
    assert "999\u202fMiB" not in page and HIDDEN_CASE not in page


@pytest.mark.django_db
def test_task_without_measured_memory_shows_no_picture_of_it(client, start, task):
    finished(start())

    assert "Speed against memory" not in client.get(task.get_absolute_url()).content.decode()
