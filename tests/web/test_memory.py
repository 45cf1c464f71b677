"""Speed against memory: the frontier of a task's kernels, its picture and the board's column."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from arena.leaderboard.charts import memory_chart
from arena.leaderboard.kernels.memory import MemoryFrontier, memory_frontiers, points_of
from arena.leaderboard.ranking.boards import board
from arena.leaderboard.ranking.frontier import memory_frontier
from arena.runs.models import Measurement
from arena.runs.scoring.standings import rebuild
from arena.runs.services import quarantine
from evaluation.types import Interval
from tests.arena.factories import HIDDEN_CASE, finished

MIB = 1 << 20


def run(low, memory, baseline=64 * MIB, **changes):
    values = {"unseen_low": low, "unseen_speedup": low * 1.05, "unseen_high": low * 1.1}
    values |= {"peak_memory": memory, "baseline_memory": baseline, "noisy": False, "label": "mine"}
    return SimpleNamespace(**{**values, **changes})


def frontier(*runs):
    return MemoryFrontier(SimpleNamespace(name="H200", slug="h200"), points_of(runs))


def remember(run, seen, unseen=None, baseline=None):
    """Give the cases of the run's final verdict a memory in MiB, and the baseline one more."""
    cases = Measurement.objects.filter(evaluation__submission__run=run)
    for split, size in (("seen", seen), ("unseen", unseen)):
        if size is not None:
            against = size + 1 if baseline is None else baseline
            sizes = {"memory_bytes": size * MIB, "baseline_memory_bytes": against * MIB}
            cases.filter(split=split).update(**sizes)
    rebuild()


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


def test_chart_of_equal_memory_has_two_ticks():
    chart = memory_chart(frontier(run(1.2, MIB, baseline=None)))

    assert chart["layout"]["xaxis"]["ticktext"] == ["1 MiB", "2 MiB"]


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
@pytest.mark.parametrize("of_agent", [False, True])
def test_kernels_in_quarantine_are_on_no_frontier(start, task, of_agent):
    measured = finished(start())
    remember(measured, 256)
    assert memory_frontiers(task.version)

    quarantine(measured.agent if of_agent else measured, "It read the clock of the judge.")

    assert memory_frontiers(task.version) == []


@pytest.mark.django_db
def test_task_without_measured_memory_shows_no_picture_of_it(client, start, task):
    finished(start())

    assert "Speed against memory" not in client.get(task.get_absolute_url()).content.decode()


@pytest.mark.django_db
def test_board_has_the_memory_of_kernels_over_that_of_their_baselines(client, start):
    remember(finished(start()), 128, unseen=999, baseline=32)

    (row,) = board().rows

    assert row.memory_ratio == pytest.approx(4.0)
    page = client.get("/leaderboard/").content.decode()
    assert 'data-label="Memory">400%' in page and "/leaderboard/parts/memory/" in page


@pytest.mark.django_db
def test_memory_below_a_mebibyte_counts_as_one(start):
    remember(finished(start()), 0, baseline=8)

    assert board().rows[0].memory_ratio == pytest.approx(0.125)


@pytest.mark.django_db
def test_board_without_measured_memory_has_no_column_of_it(client, start):
    finished(start())

    assert board().rows[0].memory_ratio is None
    page = client.get("/leaderboard/").content.decode()
    assert 'data-label="Memory"' not in page and "/leaderboard/parts/memory/" not in page
    assert "measures memory" in client.get("/leaderboard/parts/memory/").content.decode()


def test_agents_that_none_beats_in_memory_and_speed_are_on_the_frontier():
    def row(pk, low, memory):
        agent = SimpleNamespace(pk=pk, title=f"agent {pk}")
        reached = Interval(low, low, low)
        return SimpleNamespace(
            rank=pk, solved=1.0, over_set=reached, memory_ratio=memory, agent=agent
        )

    small, fast, beaten, unknown = (
        row(1, 1.2, 0.5),
        row(2, 2.0, 2.0),
        row(3, 1.1, 1.0),
        row(4, 3, None),
    )

    found = memory_frontier([fast, beaten, small, unknown])

    assert [point.row for point in found.points] == [small, beaten, fast]
    assert [point.row for point in found.best] == [small, fast] and found.unknown == [unknown]
    assert memory_frontier([unknown]) is None


@pytest.mark.django_db
def test_part_of_memory_draws_the_agents_by_their_share(client, start):
    remember(finished(start()), 128, baseline=32)

    page = client.get("/leaderboard/parts/memory/")

    assert "Least memory and highest speedup" in page.content.decode()
    (trace,) = page.context["chart"]["data"]
    assert trace["x"] == [pytest.approx(4.0)]
    assert page.context["chart"]["layout"]["xaxis"]["ticktext"] == ["5×"]
