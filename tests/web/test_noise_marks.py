"""One mark for a noisy figure, wherever a figure is shown: each cell of each page, and the API."""

from __future__ import annotations

import re
from typing import Any

import pytest

from arena.api.root import api
from arena.pages.leaderboard.board_parts import PARTS
from arena.runs.models import Evaluation, Event, Experiment, Measurement, Run
from arena.runs.scoring.standings import rebuild
from tests.web.world import World

pytestmark = pytest.mark.django_db
TASK = "rms_norm/cpp-to-cpp"
SPEEDUPS = {"tuner": 2.1, "hill-climber": 1.4}
MARK = 'data-verdict="noisy"'
PLACE = re.compile(r"<(tr|dd|figcaption|li)\b[^>]*>(.*?)</\1>", re.DOTALL)
HEAD = re.compile(r"<thead>.*?</thead>", re.DOTALL)
"""Heads of tables, one of which has the ticks of an axis of speedups."""
FIGURE = re.compile(r"\d×")
THRESHOLDS = re.compile(r"≥ \d|fast_\d")
"""Texts with the limits that rounds are counted by; these are no figures of a run."""


@pytest.fixture
def addresses(world: World) -> list[str]:
    """Return the pages of a board on which every verdict that passed is noisy."""
    runs = [world.passed(TASK, name, speedup, rounds=3) for name, speedup in SPEEDUPS.items()]
    live = world.live("swiglu/cpp-to-cpp", "hill-climber", 2)
    plan = {"slug": "duel", "title": "Duel", "agents": [{"agent": "tuner", "tasks": [TASK]}]}
    duel = Experiment.objects.create(slug="duel", title="Duel", plan=plan)
    Run.objects.filter(pk__in=[run.pk for run in runs]).update(experiment=duel)
    for model in (Run, Evaluation, Measurement):
        model.objects.update(noisy=True)
    for event in Event.objects.filter(kind="metric"):
        body = {**event.body, "detail": {**(event.body.get("detail") or {}), "noisy": True}}
        Event.objects.filter(pk=event.pk).update(body=body)
    rebuild()
    run = runs[0].pk
    return [
        "/", "/leaderboard/", "/leaderboard/?generalization=unseen", "/tasks/", f"/tasks/{TASK}/",
        "/runs/", "/agents/", "/agents/tuner/", "/experiments/", "/experiments/duel/",
        "/analysis/", f"/compare/?run={run}&run={runs[1].pk}", f"/runs/{run}/",
        f"/runs/{run}/summary/", f"/runs/{run}/rounds/1/", f"/runs/{run}/rounds/3/",
        f"/runs/{live.pk}/", f"/runs/{live.pk}/summary/",
        "/analysis/statistics/", "/agents/tuner/failures/", "/runs/?agent=tuner",
        *(f"/leaderboard/parts/{name}/" for name in PARTS),
    ]  # fmt: skip


def test_every_figure_of_a_noisy_verdict_has_the_mark_beside_it(
    client: Any, addresses: list[str]
) -> None:
    bare, marked = [], 0
    for address in addresses:
        page = client.get(address)
        assert page.status_code == 200, address
        for _, place in PLACE.findall(HEAD.sub("", page.content.decode())):
            text = " ".join(re.sub(r"<[^>]*>", "", place).split())
            if FIGURE.search(text) and not THRESHOLDS.search(text):
                marked += MARK in place
                bare += [] if MARK in place else [f"{address}: {text}"]
    assert marked > 30 and not bare, "\n".join(bare)


def test_answers_of_the_api_with_a_speedup_say_whether_it_is_noisy() -> None:
    schemas = api.get_openapi_schema()["components"]["schemas"]
    without = set()
    for name, schema in schemas.items():
        fields = schema.get("properties", {})
        has_figure = "speedup" in fields or "/Interval" in str(fields)
        if has_figure and "noisy" not in fields:
            without.add(name)
    assert without == {
        "Interval",
        "RecordOut",
        "ClaimedOut",
    }, "a part of an answer; a noisy run sets no record; a claim states no noise"
