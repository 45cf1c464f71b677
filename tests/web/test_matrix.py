"""Tests of the matrix of agents and tasks on a board."""

from __future__ import annotations

import re

import pytest

from arena.leaderboard.ranking.boards import board
from arena.leaderboard.ranking.matrix import HALF, Cell, full_height, matrix, scaled, tasks_of
from arena.leaderboard.ranking.results import snapshot
from arena.runs.models import Run

pytestmark = pytest.mark.django_db
TASK, OTHER = "rms_norm/cpp-to-cpp", "softmax/cpp-to-cpp"


def test_matrix_has_the_run_of_each_agent_on_each_task(client, world):
    first = world.passed(TASK, "tuner", 2.0, rounds=1)
    failed = world.failed(TASK, "scripted")
    second = world.passed(OTHER, "scripted", 1.5, rounds=1)
    shown = board()
    lines = matrix(snapshot(), shown, [row.agent for row in shown.rows])
    slugs = [task.slug for _, task in tasks_of(shown)]
    found = {
        (line.agent.slug, slug): cell
        for line in lines
        for slug, cell in zip(slugs, line.cells, strict=True)
        if cell
    }
    unseen = dict(Run.objects.values_list("pk", "unseen_speedup"))
    assert found == {
        ("tuner", TASK): Cell(first.pk, unseen[first.pk]),
        ("scripted", TASK): Cell(failed.pk, None, "BUILD_ERROR"),
        ("scripted", OTHER): Cell(second.pk, unseen[second.pk]),
    }
    page = client.get("/leaderboard/parts/matrix/").content.decode()
    assert f'href="/runs/{failed.pk}/" title="{TASK}: BUILD_ERROR"><b>B</b>' in page
    assert re.search(rf'href="/runs/{first.pk}/" title="{TASK}: 1\.70×"><svg', page)
    assert "Every agent on every task" in client.get("/leaderboard/").content.decode()


@pytest.mark.parametrize(
    ("speedup", "height", "top"),
    [(1.0, 1.0, HALF - 1.0), (2.0, HALF / 2, HALF / 2), (0.5, HALF / 2, HALF), (99.0, HALF, 0.0)],
)
def test_bar_is_the_logarithm_of_a_speedup(speedup, height, top):
    assert (Cell("r", speedup).height, Cell("r", speedup).top) == (height, top)


@pytest.mark.parametrize(
    ("speedups", "full"), [((1.03, 0.9), 1.25), ((1.9, None), 2.0), ((0.2, 1.0), 4.0), ((), 1.25)]
)
def test_full_height_is_the_smallest_without_a_cut_bar(speedups, full):
    cells = [None, *(Cell("r", each) for each in speedups)]
    found, [drawn] = scaled([cells])
    assert full_height([cells]) == found == full
    assert drawn == cells and all(cell is None or cell.full == full for cell in drawn)


def test_cell_without_a_known_reason_has_a_cross():
    assert Cell("r", None).glyph == "✕" and Cell("r", None, "WRONG_VALUES").glyph == "W"
