"""The start page: what its first screen answers, with a long queue and on a phone."""

from __future__ import annotations

import re
from functools import partial

import pytest
from django.utils import timezone

from arena.catalog.models import Agent
from arena.runs import services
from arena.runs.models import Run
from tests.arena.factories import judged_run
from tests.web.conftest import DESK, PHONE
from tests.web.world import DEVICE

SCREEN = {"width": 1366, "height": 900}
MAX_PHONE_HEIGHT = 6000
CUT = """[...document.querySelectorAll(".scroll")]
    .filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.ariaLabel)"""


@pytest.fixture
def judged(task, agent, hardware):
    return partial(judged_run, hardware=hardware, ended_at=timezone.now())


def text_of(client, address: str = "/") -> str:
    return re.sub(r"\s+", " ", client.get(address).content.decode())


@pytest.mark.django_db
def test_home_with_a_long_queue_shows_three_runs_and_counts_the_others(client, start):
    for number in range(11):
        run = start(label=f"run {number}")
        if number < 2:
            services.claim_run(run.pk, "worker-1")
    page = text_of(client)
    assert page.count('<li><a class="panel"') == 3
    assert ">8 waiting</a>" in page and "running</a>" not in page
    assert page.index('id="leaders"') < page.index('id="now"')


@pytest.mark.django_db
def test_home_names_the_worker_that_a_queued_run_lacks(client, start):
    start()
    remedy = "(for admins: run <code>make arena</code>)"
    assert f"Waiting: no agent worker is online {remedy}." in text_of(client)


@pytest.mark.django_db
def test_home_counts_the_tasks_that_its_link_lists(client, task):
    task.in_tree = False
    task.save()
    listed = client.get("/tasks/").context["page"].paginator.count
    assert client.get("/").context["counts"]["tasks"] == listed > 0


@pytest.mark.django_db
def test_leaders_name_model_interval_retained_share_and_slower_kernels(judged, client):
    judged("a", "relu", 2.0, unseen_speedup=1.8, unseen_low=1.7, unseen_high=1.9)
    judged("b", "gelu", 2.0, unseen_speedup=0.8, unseen_low=0.75, unseen_high=0.85)
    page = text_of(client)
    assert "no model" in page and ">90%</td>" in page
    assert "best kernel slower than its baseline on 1 of 2 solved tasks" in page


@pytest.mark.django_db
def test_leaders_count_slower_kernels_by_the_judge_of_their_board(judged, client):
    found = [("a", "relu", "1", 0.8), ("a", "gelu", "1", 1.2), ("a", "silu", "1", 1.3)]
    for by, on, judge, held_out in [*found, ("b", "relu", "2", 1.5)]:
        low, high = held_out / 1.05, held_out * 1.05
        numbers = {"unseen_speedup": held_out, "unseen_low": low, "unseen_high": high}
        judged(by, on, 2.0, judge_version=judge, **numbers)
    page = text_of(client)
    assert "best kernel slower than its baseline on 1 of 3 solved tasks" in page


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_first_screen_holds_leaders_and_runs_in_one_sight(open_page, served_world, in_thread):
    served_world.passed("rms_norm/cpp-to-cpp", "tuner", 2.1, rounds=2)
    served_world.passed("softmax/cpp-to-cpp", "cautious", 0.7, rounds=2)
    start = in_thread(services).start_run
    for _ in range(10):
        start(
            task_slug="swiglu/cpp-to-cpp",
            agent_slug="hill-climber",
            hardware_slug=DEVICE["slug"],
        )
    page = open_page("/", SCREEN)
    for part in ("#counts", ".hero .button", "#leaders-now", "#active"):
        box = page.locator(part).first.bounding_box()
        assert box["y"] + box["height"] <= SCREEN["height"], part
    assert "and 7 waiting" in page.locator("#active").inner_text()
    assert "slower" in page.locator("#leaders-now").inner_text()
    assert page.evaluate(CUT) == []
    phone = open_page("/", PHONE)
    assert phone.evaluate("document.documentElement.scrollHeight") < MAX_PHONE_HEIGHT
    assert phone.evaluate(CUT) == [] and Run.objects.active().count() == 10


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_steps_of_judging_hold_their_text_and_long_names_fit_on_a_phone(
    open_page, served_world, in_thread
):
    served_world.passed("rms_norm/cpp-to-cpp", "tuner", 2.1, rounds=1)
    in_thread(Agent.objects.filter(slug="tuner")).update(title="kernel_of_" * 8)
    for viewport in (DESK, PHONE):
        page = open_page("/", viewport)
        steps = page.locator("ol.steps")
        assert steps.evaluate("it => it.scrollHeight - it.clientHeight") == 0
        page = open_page("/agents/tuner/", viewport)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
