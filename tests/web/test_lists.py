"""Tests of the pages of long lists: each is paginated, and the runs are searched by words."""

from __future__ import annotations

import html
import re
from functools import partial

import pytest

from arena.catalog.models import Agent, Hardware, Worker
from arena.runs import services
from arena.runs.models import Experiment
from tests.arena.factories import finished, judged_run
from tests.web.world import LEASE

pytestmark = pytest.mark.django_db


@pytest.fixture
def judged(task, agent, hardware):
    return partial(judged_run, hardware=hardware)


def named(client, address: str, pattern: str) -> list[str]:
    return re.findall(pattern, client.get(address).content.decode())


def test_agents_are_listed_by_pages_with_their_states(client, db):
    Agent.objects.bulk_create(
        Agent(slug=f"a{n:02}", title=f"A {n}", adapter="lost") for n in range(55)
    )
    rows = r'<th scope="row"><a href="/agents/(a\d+)/'
    first = named(client, "/agents/?harness=lost", rows)
    last = named(client, "/agents/?harness=lost&page=2", rows)
    assert (len(first), len(last)) == (50, 5)
    assert sorted(first + last) == [f"a{n:02}" for n in range(55)]
    page = client.get("/agents/?harness=lost&page=2").content.decode()
    assert "Harness unknown" in page and "0 of 55 agents can run here" in page
    assert "51 to 55 of 55 agents" in page and 'rel="prev"' in page


def test_experiments_are_listed_by_pages(client, judged):
    for number in range(51):
        shown = Experiment.objects.create(slug=f"e{number:02}", title=f"E {number}")
        judged("a", "relu", 2.0, repeat=number, experiment=shown)
    Experiment.objects.create(slug="e-unseen", title="Without a run")
    rows = r'href="/experiments/(e[\w-]+)/'
    pages = [named(client, f"/experiments/?page={page}", rows) for page in (1, 2)]
    assert [len(page) for page in pages] == [50, 1]
    assert sorted([*pages[0], *pages[1]]) == [f"e{n:02}" for n in range(51)]


def test_devices_are_listed_by_pages(client, db):
    Hardware.objects.bulk_create(
        Hardware(slug=f"d{n:02}", name=f"D {n:02}", kind="cpu", queue=f"hw.d{n}") for n in range(21)
    )
    rows = r'id="(d\d+)"'
    pages = [named(client, f"/hardware/?page={page}", rows) for page in (1, 2)]
    assert [len(page) for page in pages] == [20, 1]


def test_runs_are_listed_by_pages_with_their_place(client, judged):
    for number in range(27):
        judged(f"a{number}", "relu", 2.0)
    first, last = (client.get(f"/runs/?page={n}").content.decode() for n in (1, 2))
    for page, place, link in ((first, "1 to 25", "next"), (last, "26 to 27", "prev")):
        assert f"{place} of 27 runs" in " ".join(page.split())
        assert re.findall(r'rel="(next|prev)"', page) == [link]


@pytest.mark.parametrize(
    ("words", "found"),
    [("rel", ["relu"]), ("relu/cpp-to-cpp", ["relu"]), ("cpp", ["relu", "selu"]), ("xyz", [])],
)
def test_runs_are_searched_by_the_words_of_their_task(client, judged, words, found):
    judged("a", "relu", 2.0)
    judged("a", "selu", 2.0)
    rows = r'href="/tasks/(\w+)/cpp-to-cpp/"'
    assert sorted(set(named(client, f"/runs/?task={words}", rows))) == found


def test_runs_of_an_operator_whose_name_is_part_of_another_are_its_own(client, judged):
    judged("a", "norm", 2.0)
    judged("a", "rms_norm", 2.0)
    rows = r'href="/tasks/(\w+)/cpp-to-cpp/"'
    assert set(named(client, "/runs/?task=norm", rows)) == {"norm"}


def test_failures_of_an_agent_are_a_part_of_its_page_and_a_page(client, judged):
    judged("a", "relu", 2.0)
    assert 'data-fragment="/agents/a/failures/"' in client.get("/agents/a/").content.decode()
    page = client.get("/agents/a/failures/").content.decode()
    assert "<html" in page and "No submission has been judged yet." in page
    assert 'href="/runs/?agent=a"' in page
    headers = {"X-Requested-With": "fragment"}
    part = client.get("/agents/a/failures/", headers=headers).content.decode()
    assert "<html" not in part and "No submission has been judged yet." in part
    assert "rejected for a rule violation" not in part


@pytest.mark.django_db
def test_failures_of_an_agent_with_a_verdict_count_rule_violations(client, world):
    world.passed("rms_norm/cpp-to-cpp", "tuner", 1.5)
    page = client.get("/agents/tuner/failures/").content.decode()
    assert "0 rejected for a rule violation, 0 disputed." in page


def test_failures_of_an_agent_in_runs_of_users_count_only_without_one_of_the_arena(
    client, start, alice
):
    finished(start(owner=alice), verdict="failed")
    of_user = client.get("/agents/tuner/failures/").context
    assert (of_user["judged"], len(of_user["failures"])) == (1, 1)
    finished(start())
    own = client.get("/agents/tuner/failures/").context
    assert (own["judged"], own["passed"], own["failures"]) == (1, 1, [])


def test_hardware_page_with_a_worker_that_takes_no_work_says_why(client, hardware):
    problem = "Its clock is 35 s ahead of the database's: synchronise it, by NTP."
    Worker.objects.create(
        name="d2/cpu", hardware=hardware, queues=[hardware.queue], pid=1, problem=problem
    )
    page = client.get("/hardware/").content.decode()
    assert "takes no work" in page and html.escape(problem) in page


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_name_of_an_agent_in_a_list_of_runs_is_not_broken_inside_a_word(
    open_page, served_world, in_thread
):
    served_world.passed("rms_norm/cpp-to-cpp", "tuner", 0.8, rounds=1)
    run = served_world.start("softmax/cpp-to-cpp", "tuner")
    in_thread(services).finish_run(run.pk, LEASE, "broken", "processor busy, " * 9, "arena")
    in_thread(Agent.objects.filter(slug="tuner")).update(title="Expert (open\u00a0book)")
    page = open_page("/runs/", {"width": 1000, "height": 900})
    name = page.locator(".runs tbody a", has_text="book").first
    assert name.evaluate("it => it.getClientRects().length") == 2
