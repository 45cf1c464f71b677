"""Tests of the courses of runs beside each other, by round and by time."""

from __future__ import annotations

import pytest
from django.db.models import F

from arena.leaderboard.side_by_side import MAX_ROWS, courses
from arena.runs.models import Run

pytestmark = pytest.mark.django_db
TASK = "rms_norm/cpp-to-cpp"


@pytest.fixture
def runs(world):
    return [
        world.passed(TASK, "tuner", 2.0, rounds=3),
        world.passed(TASK, "hill-climber", 1.5, rounds=2),
    ]


def test_rounds_stand_beside_each_other_with_the_turns_that_led_to_them(runs):
    shown = courses(runs, "round")
    assert [row.number for row in shown.rows] == [1, 2, 3]
    titles = [[[stop.title for stop in cell.turns] for cell in row.cells] for row in shown.rows]
    assert titles == [[["Turn 1"], ["Turn 1"]], [["Turn 2"], ["Turn 2"]], [["Turn 3"], []]]
    first, second = shown.rows[0].cells
    assert first.rounds[0].speedup > second.rounds[0].speedup > 1
    assert shown.rows[1].cells[0].rounds[0].verdict == "failed"
    assert not shown.rows[2].cells[1].rounds and shown.cut == []


def test_turns_after_the_last_round_have_no_number_of_a_round(client, runs):
    runs[0].events.filter(body__span_kind="submission", body__round=3).delete()
    shown = courses(runs, "round")
    assert [row.is_after for row in shown.rows] == [False, False, True]
    page = client.get(f"/compare/?run={runs[0].pk}&run={runs[1].pk}").content.decode()
    assert ">after</th>" in page and '"n fit">3</th>' not in page


def test_times_are_those_of_each_runs_own_clock(runs):
    for run, pace in zip(runs, (1_000, 4_000), strict=True):
        run.events.update(t_ms=F("seq") * pace)
    shown = courses(runs, "time")
    assert len(shown.rows) <= MAX_ROWS
    for column in range(2):
        stops = [
            s for row in shown.rows for s in (*row.cells[column].turns, *row.cells[column].rounds)
        ]
        assert len(stops) == 2 * runs[column].rounds
    step = shown.rows[1].number - shown.rows[0].number
    for row in shown.rows:
        for cell in row.cells:
            assert all(row.number <= stop.at < row.number + step for stop in cell.turns)


def test_page_links_each_turn_and_keeps_the_alignment_in_its_link(client, runs):
    query = "&".join(f"run={run.pk}" for run in runs)
    page = client.get(f"/compare/?{query}").content.decode()
    assert "Turns that led to each round" in page
    seq = runs[1].events.get(kind="span_begin", body__title="Turn 2").seq
    assert f'href="/runs/{runs[1].pk}/?at={seq}#e{seq}">Turn 2</a>' in page
    assert f'href="?{query.replace("&", "&amp;")}&amp;by=time#courses"' in page
    assert "own clock" in client.get(f"/compare/?{query}&by=time").content.decode()
    assert "led to each round" in client.get(f"/compare/?{query}&by=nothing").content.decode()


def test_round_that_only_the_final_verdict_judged_is_said_to_have_none_of_its_own(client, runs):
    runs[1].events.filter(body__span_kind="evaluation").delete()
    query = "&".join(f"run={run.pk}" for run in runs)
    assert "no verdict of its own" in client.get(f"/compare/?{query}").content.decode()


def test_long_trace_is_cut_to_its_newest_part_with_a_note(client, world, runs):
    long = world.long(TASK, "scripted", 8_000)
    assert courses([runs[0], long], "round").cut == [long]


def test_empty_comparison_offers_the_newest_judged_runs(client, runs, world):
    private = world.passed(TASK, "tuner", 2.0, rounds=1)
    Run.objects.filter(pk=private.pk).update(visibility="owner")
    page = client.get("/compare/").content.decode()
    offered = [run.pk for run in runs if f'value="{run.pk}" form="compare"' in page]
    assert len(offered) == 2 and private.pk not in page


def test_progress_is_drawn_for_runs_of_one_task_alone(client, runs, world):
    other = world.passed("softmax/cpp-to-cpp", "tuner", 1.8, rounds=2)
    for second, drawn in ((runs[1], True), (other, False)):
        page = client.get(f"/compare/?run={runs[0].pk}&run={second.pk}").content.decode()
        assert ("Best so far by round" in page) is drawn
