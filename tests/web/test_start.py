"""Starting a run by a form: who may, what is filled in, and what is said of what cannot be."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from arena.catalog.models import Agent, Task, Worker
from arena.runs.models import Experiment, Run
from tests.web.world import DEVICE, OTHER

pytestmark = pytest.mark.django_db
START = "/runs/start/"
ASKED = {
    "task": "rms_norm/cpp-to-cpp",
    "agent": "tuner",
    "hardware": OTHER["slug"],
    "rounds": "3",
    "seconds": "45",
    "label": "by hand",
    "visibility": "owner",
}


@pytest.fixture
def alices(client, world, alice):
    """A client that is logged in as Alice."""
    client.force_login(alice)
    return client


def test_who_is_not_logged_in_comes_back_to_the_form(client, world, alice):
    page = client.get(f"{START}?task=softmax/cpp-to-cpp", follow=True)
    assert page.redirect_chain[0][0].startswith("/login/?next=/runs/start/")
    there = parse_qs(urlsplit(page.redirect_chain[0][0]).query)["next"][0]
    credentials = {"username": "alice", "password": "wonderland", "next": there}
    form = client.post("/login/", credentials, follow=True)
    assert '<option value="softmax/cpp-to-cpp" selected>' in form.content.decode()
    client.logout()
    assert client.post(START, ASKED).status_code == 302
    assert not Run.objects.exists()


def test_a_run_is_started_as_asked_and_shown(alices, alice):
    answer = alices.post(START, ASKED)
    run = Run.objects.with_names().get()
    assert answer.headers["Location"] == run.get_absolute_url()
    assert (run.task_version.task.slug, run.agent.slug) == ("rms_norm/cpp-to-cpp", "tuner")
    assert (run.hardware.slug, run.owner, run.status) == (OTHER["slug"], alice, "queued")
    assert (run.budget, run.label) == ({"rounds": 3, "seconds": 45}, "by hand")
    assert run.visibility == "owner"
    assert alices.get(run.get_absolute_url()).status_code == 200


def test_what_is_left_open_is_chosen(alices):
    Worker.objects.filter(hardware__slug=DEVICE["slug"]).delete()
    alices.post(START, ASKED | {"hardware": "", "label": ""})
    run = Run.objects.get()
    assert (run.hardware.slug, run.label) == (OTHER["slug"], "")


def test_a_run_is_asked_for_again_as_it_was(alices):
    alices.post(START, ASKED)
    page = alices.get(Run.objects.get().get_absolute_url())
    form = alices.get(f"{START}?{page.context['again']}")
    assert f"{START}?{page.context['again'].replace('&', '&amp;')}" in page.content.decode()
    assert form.context["form"].initial == ASKED


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"imported_at": "2026-01-01T00:00Z"}, {"hardware": ""}),
        ({"experiment": "set"}, {"label": ""}),
        ({"budget": {"rounds": 2, "task": "other", "next": 1}}, {"rounds": "2", "seconds": None}),
    ],
)
def test_again_means_here_alone_and_with_a_budget_of_ones_own(alices, change, differs):
    alices.post(START, ASKED)
    if "experiment" in change:
        change = {"experiment": Experiment.objects.create(slug="set", title="Set")}
    Run.objects.update(**change)
    asked = parse_qs(alices.get(Run.objects.get().get_absolute_url()).context["again"])
    wanted = {name: [text] for name, text in (ASKED | differs).items() if text}
    assert asked == wanted


def test_what_takes_no_runs_any_more_is_not_offered_again(alices):
    alices.post(START, ASKED)
    address = Run.objects.get().get_absolute_url()
    Agent.objects.filter(slug="tuner").update(active=False)
    assert START not in alices.get(address).content.decode()
    Agent.objects.filter(slug="tuner").update(active=True)
    assert START in alices.get(address).content.decode()
    Task.objects.filter(operator__slug="rms_norm").update(status="retired")
    assert START not in alices.get(address).content.decode()


def test_a_field_tells_all_its_errors_in_one_place(alices):
    page = alices.post(START, ASKED | {"label": "x" * 101 + "\0"}).content.decode()
    assert page.count('id="id_label_error"') == 1
    assert "at most 100 characters" in page and "Null characters" in page


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"task": ""}, "This field is required."),
        ({"task": "rms_norm/cpp-to-rust"}, "not one of the available choices"),
        ({"agent": "nobody"}, "not one of the available choices"),
        ({"rounds": "0"}, "greater than or equal to 1"),
        ({"seconds": "86401"}, "less than or equal to 86400"),
        ({"seconds": "soon"}, "Enter a whole number."),
        ({"label": "x" * 101}, "at most 100 characters"),
        ({"visibility": "staff"}, "not one of the available choices"),
    ],
)
def test_what_cannot_be_is_told_beside_its_field_and_starts_nothing(alices, wrong, said):
    page = alices.post(START, ASKED | wrong)
    assert page.status_code == 422
    (name,) = wrong
    assert said in " ".join(page.context["form"].errors[name])
    assert said in page.content.decode()
    assert 'value="45"' in page.content.decode() or name == "seconds", "what was typed is lost"
    assert not Run.objects.exists()


def test_what_the_arena_refuses_is_told_with_a_hint(alices, settings):
    Agent.objects.filter(slug="tuner").update(tasks=["softmax/*"])
    page = alices.post(START, ASKED)
    assert page.status_code == 422
    assert "Tuner does not work on rms_norm/cpp-to-cpp." in page.content.decode()
    assert "It works on softmax/*." in page.content.decode()
    settings.MAX_ACTIVE_RUNS = 0
    page = alices.post(START, ASKED | {"task": "softmax/cpp-to-cpp"})
    assert "Wait for one to end" in page.content.decode()
    assert not Run.objects.exists()


def test_only_what_can_be_started_is_offered(alices, bob):
    Task.objects.filter(operator__slug="softmax", track="cpp-to-cpp").update(status="retired")
    Agent.objects.filter(slug="cautious").update(active=False)
    Worker.objects.filter(hardware__slug=OTHER["slug"]).delete()
    page = alices.get(START).content.decode()
    assert 'value="rms_norm/cpp-to-cpp"' in page and 'value="softmax/cpp-to-cpp"' not in page
    assert 'value="tuner"' in page and 'value="cautious"' not in page
    assert f"{OTHER['name']}, no worker online" in page and f"{DEVICE['name']}, no" not in page
    assert 'value="staff"' not in page
    alices.force_login(bob)
    assert 'value="staff"' in alices.get(START).content.decode()


def test_a_task_that_takes_no_runs_offers_none(alices):
    address = "/tasks/softmax/cpp-to-cpp/"
    assert f"{START}?task=softmax/cpp-to-cpp" in alices.get(address).content.decode()
    Task.objects.filter(operator__slug="softmax").update(status="retired")
    assert START not in alices.get(address).content.decode()
