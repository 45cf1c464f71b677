"""Tests of the form that starts a run: access, initial values and errors."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from arena.catalog.models import Agent, Task, Worker
from arena.runs.models import Experiment, Run
from tests.web.world import DEVICE, OTHER

pytestmark = pytest.mark.django_db
START = "/runs/start/"
FORM = {
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
    """Return a client logged in as Alice."""
    client.force_login(alice)
    return client


def test_start_form_after_login_keeps_its_query(client, world, alice):
    page = client.get(f"{START}?task=softmax/cpp-to-cpp", follow=True)
    assert page.redirect_chain[0][0].startswith("/login/?next=/runs/start/")
    there = parse_qs(urlsplit(page.redirect_chain[0][0]).query)["next"][0]
    credentials = {"username": "alice", "password": "wonderland", "next": there}
    form = client.post("/login/", credentials, follow=True)
    assert '<option value="softmax/cpp-to-cpp" selected>' in form.content.decode()
    client.logout()
    assert client.post(START, FORM).status_code == 302
    assert not Run.objects.exists()


def test_start_form_starts_the_run_and_redirects_to_it(alices, alice):
    answer = alices.post(START, FORM)
    run = Run.objects.with_names().get()
    assert answer.headers["Location"] == run.get_absolute_url()
    assert (run.task_version.task.slug, run.agent.slug) == ("rms_norm/cpp-to-cpp", "tuner")
    assert (run.hardware.slug, run.owner, run.status) == (OTHER["slug"], alice, "queued")
    assert (run.budget, run.label) == ({"rounds": 3, "seconds": 45}, "by hand")
    assert run.visibility == "owner"
    assert alices.get(run.get_absolute_url()).status_code == 200


def test_start_form_without_hardware_chooses_a_device(alices):
    Worker.objects.filter(hardware__slug=DEVICE["slug"]).delete()
    alices.post(START, FORM | {"hardware": "", "label": ""})
    run = Run.objects.get()
    assert (run.hardware.slug, run.label) == (OTHER["slug"], "")


def test_run_again_fills_the_form_with_the_same_values(alices):
    alices.post(START, FORM)
    page = alices.get(Run.objects.get().get_absolute_url())
    form = alices.get(f"{START}?{page.context['again']}")
    assert f"{START}?{page.context['again'].replace('&', '&amp;')}" in page.content.decode()
    assert form.context["form"].initial == FORM


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"imported_at": "2026-01-01T00:00Z"}, {"hardware": ""}),
        ({"experiment": "set"}, {"label": ""}),
        ({"budget": {"rounds": 2, "task": "other", "next": 1}}, {"rounds": "2", "seconds": None}),
    ],
)
def test_run_again_of_an_imported_or_planned_run_drops_what_does_not_apply(alices, change, differs):
    alices.post(START, FORM)
    if "experiment" in change:
        change = {"experiment": Experiment.objects.create(slug="set", title="Set")}
    Run.objects.update(**change)
    again = parse_qs(alices.get(Run.objects.get().get_absolute_url()).context["again"])
    wanted = {name: [text] for name, text in (FORM | differs).items() if text}
    assert again == wanted


def test_run_again_is_absent_if_agent_or_task_is_retired(alices):
    alices.post(START, FORM)
    address = Run.objects.get().get_absolute_url()
    Agent.objects.filter(slug="tuner").update(active=False)
    assert START not in alices.get(address).content.decode()
    Agent.objects.filter(slug="tuner").update(active=True)
    assert START in alices.get(address).content.decode()
    Task.objects.filter(operator__slug="rms_norm").update(status="retired")
    assert START not in alices.get(address).content.decode()


def test_start_form_shows_all_errors_of_a_field_once(alices):
    page = alices.post(START, FORM | {"label": "x" * 101 + "\0"}).content.decode()
    assert page.count('id="id_label_error"') == 1
    assert "at most 100 characters" in page and "Null characters" in page


@pytest.mark.parametrize(
    ("wrong", "error"),
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
def test_start_form_with_an_invalid_field_shows_the_error_and_starts_nothing(alices, wrong, error):
    page = alices.post(START, FORM | wrong)
    assert page.status_code == 422
    (name,) = wrong
    assert error in " ".join(page.context["form"].errors[name])
    assert error in page.content.decode()
    assert 'value="45"' in page.content.decode() or name == "seconds", "what was typed is lost"
    assert not Run.objects.exists()


def test_start_form_refused_by_the_arena_shows_message_and_hint(alices, settings):
    Agent.objects.filter(slug="tuner").update(tasks=["softmax/*"])
    page = alices.post(START, FORM)
    assert page.status_code == 422
    assert "Tuner does not work on rms_norm/cpp-to-cpp." in page.content.decode()
    assert "It works on softmax/*." in page.content.decode()
    settings.MAX_ACTIVE_RUNS = 0
    page = alices.post(START, FORM | {"task": "softmax/cpp-to-cpp"})
    assert "Wait for one to end" in page.content.decode()
    assert not Run.objects.exists()


def test_start_form_offers_only_runnable_choices(alices, bob):
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


def test_retired_task_page_has_no_start_link(alices):
    address = "/tasks/softmax/cpp-to-cpp/"
    assert f"{START}?task=softmax/cpp-to-cpp" in alices.get(address).content.decode()
    Task.objects.filter(operator__slug="softmax").update(status="retired")
    assert START not in alices.get(address).content.decode()
