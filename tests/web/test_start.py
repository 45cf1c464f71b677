"""Tests of the form that starts a run: access, initial values and errors."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from arena.audit.models import AuditEntry
from arena.catalog.models import Agent, Hardware, Task, Worker
from arena.runs import forms
from arena.runs.models import Experiment, Run
from tests.web.world import DEVICE, OTHER

pytestmark = pytest.mark.django_db
START = "/runs/start/"
FORM = {
    "task": ["rms_norm/cpp-to-cpp"],
    "agent": ["tuner"],
    "hardware": OTHER["slug"],
    "repeats": "1",
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
    assert 'value="softmax/cpp-to-cpp" checked>' in form.content.decode()
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


def test_start_form_of_staff_is_recorded(client, world, bob):
    client.force_login(bob)
    client.post(START, FORM)
    entry = AuditEntry.objects.get(action="run.start")
    assert (entry.actor, entry.object_label) == (bob, Run.objects.get().pk)


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
    again = {name: value for name, value in FORM.items() if name != "repeats"}
    assert form.context["form"].initial == again


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
    wanted = {
        name: value if isinstance(value, list) else [value]
        for name, value in (FORM | differs).items()
        if value and name != "repeats"
    }
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
        ({"task": []}, "Choose at least one task."),
        ({"agent": []}, "Choose at least one agent."),
        ({"repeats": "21"}, "less than or equal to 20"),
        ({"usd": "0"}, "greater than or equal to 0.01"),
        ({"tokens": "many"}, "Enter a whole number."),
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


TWO = FORM | {"agent": ["tuner", "cautious"], "task": ["rms_norm/cpp-to-cpp", "softmax/cpp-to-cpp"]}


def test_start_form_with_several_agents_and_tasks_starts_an_experiment(alices, alice):
    form = TWO | {"repeats": "2", "usd": "1.5", "label": ""}
    answer = alices.post(START, form, follow=True)
    experiment = Experiment.objects.get()
    assert answer.redirect_chain == [(f"/experiments/{experiment.slug}/", 302)]
    assert experiment.title == "Cautious vs Tuner on 2 tasks"
    runs = experiment.runs.with_names()
    cells = {(run.agent.slug, run.task_version.task.slug, run.repeat) for run in runs}
    assert len(runs) == len(cells) == 8
    for run in runs:
        assert (run.owner, run.visibility, run.hardware.slug) == (alice, "owner", OTHER["slug"])
        assert run.budget == {"rounds": 3, "seconds": 45, "usd": 1.5}
    assert answer.context["planned"] == 8 and answer.context["missing"] == 0
    alices.post(START, form)
    assert Experiment.objects.count() == 2, "a second experiment has its own name"


def test_start_form_leaves_out_tasks_that_an_agent_does_not_work_on(alices):
    Agent.objects.filter(slug="cautious").update(tasks=["softmax/*"])
    page = alices.post(START, TWO, follow=True)
    assert Run.objects.count() == 3
    assert "Left out: Cautious does not work on rms_norm/cpp-to-cpp." in page.content.decode()
    assert page.context["planned"] == 3 and page.context["missing"] == 0


def test_start_form_refuses_more_runs_than_the_limit_and_starts_none(alices, settings):
    settings.MAX_ACTIVE_RUNS = 3
    page = alices.post(START, TWO)
    assert page.status_code == 422 and "Start fewer." in page.content.decode()
    assert not Run.objects.exists() and not Experiment.objects.exists()
    settings.MAX_ACTIVE_RUNS = 4
    assert alices.post(START, TWO).status_code == 302
    assert "and the limit is 4" in alices.post(START, TWO).content.decode()
    assert Run.objects.count() == 4


def test_start_form_refuses_more_runs_than_a_form_may_start(alices, bob, monkeypatch):
    alices.force_login(bob)
    monkeypatch.setattr(forms, "MAX_RUNS", 7)
    page = alices.post(START, TWO | {"repeats": "2"})
    assert "These are 8 runs, and a form starts 7 at most" in page.content.decode()
    assert not Run.objects.exists()


def test_agent_that_cannot_run_shows_its_reason_and_is_refused(alices):
    Agent.objects.filter(slug="cautious").update(adapter="gone")
    page = alices.get(START).content.decode()
    assert "1 agent cannot run here yet" in page and "Harness unknown." in page
    assert 'value="cautious"' not in page
    page = alices.post(START, FORM | {"agent": ["cautious"]})
    assert page.status_code == 422
    assert "Cautious cannot run here. There is no harness" in page.content.decode()
    assert not Run.objects.exists()


def test_agent_without_a_live_worker_can_be_started_and_waits(alices):
    Worker.objects.all().delete()
    page = alices.get(START).content.decode()
    assert 'value="tuner"' in page and "A run would wait." in page
    assert alices.post(START, FORM).status_code == 302
    assert Run.objects.get().status == "queued"


def spent(agent: str, task: str, seconds: float, **more) -> None:
    """Add a past run."""
    now = timezone.now()
    task_version = Task.objects.by_slug(task).get().version
    Run.objects.create(
        agent=Agent.objects.get(slug=agent),
        task_version=task_version,
        hardware=Hardware.objects.first(),
        status="failed",
        started_at=now - timedelta(seconds=seconds),
        ended_at=now,
        **more,
    )


def test_estimate_is_the_mean_of_past_runs_of_the_task_else_of_the_agent(alice, alices):
    alice.user_permissions.add(Permission.objects.get(codename="use_models"))
    Agent.objects.filter(slug="tuner").update(model="m", provider="p")
    spent("tuner", "rms_norm/cpp-to-cpp", 100, cost_usd=1.0, tokens=1000)
    spent("tuner", "rms_norm/cpp-to-cpp", 200, cost_usd=3.0, tokens=3000)
    spent("tuner", "swiglu/cpp-to-cpp", 600, cost_usd=8.0, tokens=20_000)
    tasks = ["rms_norm/cpp-to-cpp", "softmax/cpp-to-cpp"]
    form = FORM | {"task": tasks, "repeats": "3", "usd": "5", "estimate": "1"}
    page = alices.post(START, form)
    found = page.context["form"].estimate
    assert (found.runs, found.past, found.untried, found.unpriced) == (6, 3, [], [])
    assert found.usd == pytest.approx(3 * (2 + 4)) and found.tokens == pytest.approx(3 * 10_000)
    assert found.seconds == pytest.approx(3 * (150 + 300), rel=0.01)
    assert found.limits == {"usd": 30.0, "seconds": 270}
    text = page.content.decode()
    assert "$18.00" in text and "$30.00 at most" in text and "Start 6 runs" in text
    assert Run.objects.count() == 3, "an estimate starts nothing"


@pytest.mark.parametrize("chosen", [{"task": []}, {"agent": []}, {"seconds": "soon"}])
def test_estimate_of_a_form_that_is_not_complete_is_no_error(alices, chosen):
    page = alices.post(START, FORM | chosen | {"estimate": "1"})
    assert page.status_code == 200 and "data-estimate" in page.content.decode()
    assert not Run.objects.exists()


def test_estimate_is_of_runs_that_the_user_can_see(alices, alice, bob):
    spent("tuner", "rms_norm/cpp-to-cpp", 100, owner=bob, visibility="staff", cost_usd=7.0)
    spent("tuner", "rms_norm/cpp-to-cpp", 100, owner=bob, visibility="owner", cost_usd=7.0)
    address = f"{START}?agent=tuner&task=rms_norm/cpp-to-cpp"
    found = alices.get(address).context["form"].estimate
    assert (found.past, found.usd, [agent.slug for agent in found.untried]) == (0, None, ["tuner"])
    spent("tuner", "rms_norm/cpp-to-cpp", 100, owner=alice, visibility="owner", cost_usd=2.0)
    assert alices.get(address).context["form"].estimate.usd == 2.0


def test_estimate_names_agents_without_past_runs_and_unknown_prices(alices):
    spent("tuner", "rms_norm/cpp-to-cpp", 100, tokens=1000)
    query = "agent=tuner&agent=cautious&task=rms_norm/cpp-to-cpp"
    page = alices.get(f"{START}?{query}")
    text = " ".join(page.content.decode().split())
    assert "No past run of Cautious: not in the estimate." in text
    assert "The price of Tuner is unknown: not in the cost." in text
    assert page.context["form"].estimate.usd is None


def test_start_form_needs_a_constant_number_of_queries(alices):
    def queries(query: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert alices.get(f"{START}?{query}").status_code == 200
        return len(captured)

    few = queries("agent=tuner&task=softmax/cpp-to-cpp")
    slugs = Task.objects.runnable().select_related("operator")
    every = [("task", task.slug) for task in slugs]
    every += [("agent", slug) for slug in Agent.objects.values_list("slug", flat=True)]
    assert len(every) > 10 and queries(urlencode(every)) == few


def test_start_form_offers_only_runnable_choices(alices, bob):
    Task.objects.filter(operator__slug="softmax", track="cpp-to-cpp").update(status="retired")
    Agent.objects.filter(slug="cautious").update(active=False)
    Worker.objects.filter(hardware__slug=OTHER["slug"]).delete()
    page = alices.get(START).content.decode()
    assert 'value="rms_norm/cpp-to-cpp"' in page and 'value="softmax/cpp-to-cpp"' not in page
    assert 'value="tuner"' in page and 'value="cautious"' not in page
    assert f"{OTHER['name']}, no worker ready" in page and f"{DEVICE['name']}, no" not in page
    assert 'value="staff"' not in page
    alices.force_login(bob)
    assert 'value="staff"' in alices.get(START).content.decode()


def test_start_form_names_the_device_that_a_run_would_wait_for(alices):
    query = f"{START}?agent=tuner&task=rms_norm/cpp-to-cpp"
    assert "waits:" not in alices.get(query).content.decode()
    Worker.objects.filter(hardware__slug=DEVICE["slug"]).delete()
    assert "waits:" not in alices.get(query).content.decode(), "another device has a worker"
    asked = alices.get(f"{query}&hardware={DEVICE['slug']}").content.decode()
    assert f"The run waits: no worker for {DEVICE['name']} is online" in asked
    Worker.objects.filter(hardware__slug=OTHER["slug"]).delete()
    Hardware.objects.filter(slug=OTHER["slug"]).update(seen_at=timezone.now())
    page = alices.get(query).content.decode()
    assert f"The run waits: no worker for {OTHER['name']} is online" in page
    assert "on a machine with this device" in page
    other = Hardware.objects.get(slug=OTHER["slug"])
    problem = "vm/cpu (process 7) measures on this device: one at a time does."
    Worker.objects.create(name="w", hardware=other, queues=[other.queue], problem=problem, pid=1)
    page = alices.get(query).content.decode()
    assert f"the worker for {OTHER['name']} takes no work (for admins: {problem[:-1]})." in page


@pytest.mark.parametrize(
    ("patterns", "words"),
    [
        (["*/*-to-*"], "Works on every track."),
        (["*/torch-to-torch", "*/*-to-cpp"], "Works on the track torch-to-torch, tracks to cpp."),
        (
            ["*/cpp-to-cpp", "*/cuda-to-cuda", "*/hip-to-hip"],
            "Works on the tracks cpp-to-cpp, cuda-to-cuda and hip-to-hip.",
        ),
        (["rms_norm/cpp-to-cpp"], "Works on rms_norm/cpp-to-cpp."),
        (["softmax/torch-to-*"], "Works on tracks from torch of softmax."),
    ],
)
def test_start_form_names_the_tasks_of_an_agent_in_words(alices, patterns, words):
    Agent.objects.filter(slug="tuner").update(tasks=patterns)
    page = " ".join(alices.get(START).content.decode().split())
    assert words in page


def test_retired_task_page_has_no_start_link(alices):
    address = "/tasks/softmax/cpp-to-cpp/"
    assert f"{START}?task=softmax/cpp-to-cpp" in alices.get(address).content.decode()
    Task.objects.filter(operator__slug="softmax").update(status="retired")
    assert START not in alices.get(address).content.decode()
