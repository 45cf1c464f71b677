"""Tests of the wall of live runs."""

from __future__ import annotations

import pytest

from arena.pages.runs.live import MAX_CARDS
from arena.runs import services
from arena.runs.trace.events import EventDraft
from tests.web.conftest import PHONE, TIMEOUT_MS

TASK = "rms_norm/cpp-to-cpp"


@pytest.mark.django_db
def test_wall_shows_each_run_at_work_with_its_best_and_newest_row(client, world):
    run = world.live(TASK, "tuner", rounds=2)
    services.record(run.pk, [EventDraft("log", {"text": "<b>tiles of 64"})], producer="test")
    queued = services.start_run(
        task_slug=TASK, agent_slug="scripted", hardware_slug=run.hardware.slug
    )
    page = client.get("/live/").content.decode()
    wall = page[page.index('id="wall"') : page.index('id="ended"')]
    assert f'href="/runs/{run.pk}/"' in wall and f"/runs/{queued.pk}/" not in wall
    assert "1.42×" in wall and "&lt;b&gt;tiles of 64" in wall and "<polyline" in wall
    assert "1 at work, 1 waiting" in page
    ended = world.passed(TASK, "hill-climber", 1.5, rounds=1)
    page = client.get("/live/").content.decode()
    assert f'href="/runs/{ended.pk}/"' in page[page.index('id="wall-ended"') :]


@pytest.mark.django_db
def test_wall_of_very_many_runs_counts_the_others(client, world):
    for _ in range(MAX_CARDS + 2):
        world.start(TASK, "tuner")
    page = client.get("/live/").content.decode()
    assert page.count('<li><a class="panel"') == MAX_CARDS and ">2 more</a>" in page


@pytest.mark.django_db
def test_private_run_is_on_the_wall_of_its_owner_alone(client, world, alice):
    run = world.live(TASK, "tuner", rounds=1)
    type(run).objects.filter(pk=run.pk).update(visibility="owner", owner=alice)
    assert run.pk not in client.get("/live/").content.decode()
    client.force_login(alice)
    assert run.pk in client.get("/live/").content.decode()


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_open_wall_shows_a_run_that_ends(open_page, served_world, in_thread):
    run = served_world.live(TASK, "tuner", rounds=1)
    page = open_page("/live/", PHONE)
    page.wait_for_selector(f"#wall a[href='/runs/{run.pk}/']", timeout=TIMEOUT_MS)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    final = in_thread(services).request_evaluation(run.submissions.last(), "final")
    served_world.judge(final, "passed", 1.5, True)
    page.wait_for_selector(f"#wall-ended a[href='/runs/{run.pk}/']", timeout=TIMEOUT_MS)
    page.wait_for_selector("#wall .empty", timeout=TIMEOUT_MS)
    assert page.console_errors == []
