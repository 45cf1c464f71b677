"""Tests of the admin pages."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from arena.accounts.models import ApiToken, User
from arena.catalog.models import (
    Agent,
    CatalogSync,
    Device,
    Harness,
    Task,
    TaskFolder,
    TaskVersion,
    Worker,
)
from arena.contests.models import Contest, Entry
from arena.curation import drafts, rejudging
from arena.curation.models import Check, CheckStep, Draft, Review
from arena.curation.rejudging_filters import Filters
from arena.leaderboard.models import Announcement, AnnouncementKind, Composition
from arena.notes.models import Hit, Note, Scan
from arena.runs.models import (
    ArchivedTrace,
    Artefact,
    Blob,
    Evaluation,
    Experiment,
    ImportedFile,
    Run,
    Submission,
)
from arena.runs.spending import spending
from arena.runs.traffic import add_part
from tests.arena.factories import finished, hide
from tests.arena.published import kernel_line, load_claims, load_verdicts, verdict_line

pytestmark = pytest.mark.django_db
MODELS = [model for model in apps.get_models() if model.__module__.startswith("arena.")]


@pytest.fixture
def root(client) -> User:
    user = User.objects.create_superuser("root", password="root")
    client.force_login(user)
    return user


def test_task_is_found_by_its_name(root, client, task):
    for words, found in (("relu/cpp-to-cpp", 1), ("relu/cuda-to-cuda", 0)):
        page = client.get(reverse("admin:catalog_task_changelist"), {"q": words}).content.decode()
        assert page.count('class="field-__str__"') == found, words


def test_models_each_have_an_admin():
    assert [model for model in MODELS if not admin.site.is_registered(model)] == []


def test_models_each_have_search_and_a_link_to_their_page():
    for model, its_admin in admin.site._registry.items():
        assert its_admin.search_fields, model
    with_page = [m for m in MODELS if hasattr(m, "get_absolute_url")]
    assert {Run, Draft, Task, Agent, Experiment, Submission} <= set(with_page)


@pytest.fixture
def rows(root, start, bob, tmp_path) -> None:
    """Create at least one row of each model of the arena."""
    experiment = Experiment.objects.create(slug="e", title="E")
    run = finished(start(owner=root, experiment=experiment))
    Scan.objects.create(run=run, version=1)
    add_part(run.pk, 0, b'{"path": "relu"}\n')
    Hit.objects.create(run=run, rule="copy", seq=1, excerpt="relu")
    Note.objects.create(run=run, mark="bug", quote="relu", author=root)
    ApiToken.issue(root, "t", ["read"])
    Harness.objects.create(name="h", title="H")
    CatalogSync.objects.create(machine="relu", checkout="a", judge_version="7")
    Worker.objects.create(name="w", hardware=run.hardware, queues=["none"], pid=1)
    artefact = {"key": "relu", "sha256": "a" * 64, "content": b"x"}
    Artefact.objects.create(evaluation=Evaluation.objects.first(), **artefact)
    Device.objects.create(key="relu", hardware=run.hardware)
    TaskFolder.objects.create(operator="relu", content_hash="c" * 64, files={})
    Blob.objects.create(sha256="d" * 64, size=1, content="x")
    ArchivedTrace.objects.create(
        run=run, sha256="d" * 64, size=1, last_seq=1, spent=asdict(spending(run.pk))
    )
    ImportedFile.objects.create(sha256="e" * 64, name="results.jsonl")
    draft = drafts.create_from_form(root, "vector_sum", "Vector sum")
    check = Check.objects.create(draft=draft, content_hash="f" * 64, hardware=run.hardware)
    CheckStep.objects.create(check_of=check, number=1, body={"type": "error", "message": "m"})
    Review.objects.create(draft=draft, author=root, reviewer=bob, approved=True)
    rejudging.start(root, Filters(), "A test.", 1)
    load_claims(tmp_path, [kernel_line(1, 2.0, speedup=1.9)])
    load_verdicts(tmp_path, [verdict_line("relu/cpp-to-cpp", 1.2)])
    contest = Contest.objects.create(
        slug="cup", title="Cup", task=run.task_version.task, hardware=run.hardware,
        starts_at="2026-01-01T00:00Z", ends_at="2026-02-01T00:00Z",
    )  # fmt: skip
    Entry.objects.create(
        contest=contest, owner=root, team="relu", run=run, speedup=2.0, low=1.9, high=2.1
    )
    Composition.objects.create(architecture="llama", hardware=run.hardware, submissions={})
    Announcement.objects.create(kind=AnnouncementKind.LEADERS, subject="relu")


def test_admin_list_search_filters_and_rows_of_every_model_open(client, root, rows):
    for model, its_admin in admin.site._registry.items():
        assert model._default_manager.exists() or model not in MODELS, model
        name = f"admin:{model._meta.label_lower.replace('.', '_')}"
        listed = client.get(reverse(f"{name}_changelist"), {"q": "relu"})
        assert listed.status_code == 200, model
        whole = client.get(reverse(f"{name}_changelist"))
        assert whole.context["cl"].result_count == model._default_manager.count(), model
        for row in model._default_manager.all()[:1]:
            page = client.get(reverse(f"{name}_change", args=[row.pk]))
            assert page.status_code == 200, model
            if address := its_admin.get_view_on_site_url(row):
                assert address.encode() in page.content
                assert client.get(address, follow=True).status_code == 200, (model, address)


def test_admin_pages_of_facts_have_no_field_to_edit(client, root, rows):
    editable = {ApiToken, User, Group, Contest}
    for model, its_admin in admin.site._registry.items():
        request = RequestFactory().get("/")
        request.user = root
        may = its_admin.has_change_permission(request) or its_admin.has_delete_permission(request)
        assert may == (model in editable), model


def test_admin_task_list_needs_a_constant_number_of_queries(client, root, task):
    def query_count() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get(reverse("admin:catalog_task_changelist")).status_code == 200
        return len(queries)

    before = query_count()
    for track in ("torch-to-cpp", "cpp-to-triton", "torch-to-triton"):
        other = Task.objects.create(operator=task.operator, track=track, status="published")
        TaskVersion.objects.create(task=other, content_hash="b" * 64, admitted=True)
    assert query_count() == before


def test_admin_facts_are_read_only(client, root, start):
    run = finished(start())
    path = reverse("admin:runs_run_change", args=[run.pk])
    assert client.post(path, {"status": "queued"}).status_code == 403
    assert client.get(reverse("admin:runs_event_add")).status_code == 403


def test_admin_token_is_shown_once_and_works(client, root):
    form = {"user": root.pk, "name": "ci", "scopes": ["read", "run"]}
    page = client.post(reverse("admin:accounts_apitoken_add"), form, follow=True).content.decode()
    secret = page.split("shown only once: ")[1].split("<")[0].strip()
    token = ApiToken.objects.find(secret)
    assert token is not None and token.scopes == ["read", "run"]
    assert secret not in client.get(reverse("admin:accounts_apitoken_changelist")).content.decode()


def test_admin_cancels_selected_runs(client, root, start):
    waiting, ended = start(), finished(start())
    chosen = {"action": "cancel", "_selected_action": [waiting.pk, ended.pk]}
    page = client.post(reverse("admin:runs_run_changelist"), chosen, follow=True)
    waiting.refresh_from_db()
    assert waiting.status == "cancelled"
    assert "ended already" in page.content.decode()


def test_admin_with_view_permission_only_has_no_actions(client, bob, start):
    run = start()
    client.force_login(bob)
    path = reverse("admin:runs_run_changelist")
    may = dict(Permission.objects.filter(content_type__model="run").values_list("codename", "pk"))
    bob.user_permissions.add(may["view_run"])
    for action in ("cancel", "show"):
        client.post(path, {"action": action, "_selected_action": [run.pk]})
        assert f'value="{action}"' not in client.get(path).content.decode()
    run.refresh_from_db()
    assert (run.status, run.visibility, run.cancel_requested) == ("queued", "public", False)
    bob.user_permissions.add(may["change_run"])
    hide(run)
    client.post(path, {"action": "show", "_selected_action": [run.pk]})
    run.refresh_from_db()
    assert run.visibility == "public"


def test_admin_shows_a_run_for_staff_alone_to_everybody_and_hides_none(client, root, start, alice):
    private, run = start(owner=alice, visibility="owner"), finished(start(repeat=1))
    hide(run)
    for action, shown in (("hide", False), ("show", True)):
        chosen = {"action": action, "_selected_action": [run.pk, private.pk]}
        client.post(reverse("admin:runs_run_changelist"), chosen)
        client.logout()
        assert len(client.get("/api/v1/leaderboard").json()["rows"]) == int(shown)
        assert client.get(f"/runs/{run.pk}/").status_code == (200 if shown else 404)
        client.force_login(root)
    history = client.get(reverse("admin:runs_run_history", args=[run.pk])).content.decode()
    assert "Shown to everybody." in history
    private.refresh_from_db()
    assert private.visibility == "owner", "what its owner keeps private stays so"


def test_admin_of_harnesses_leads_to_the_form_of_a_new_agent(client, root):
    Harness.objects.create(name="claude-code", title="Claude Code")
    listed = client.get(reverse("admin:catalog_harness_changelist")).content.decode()
    address = f"{reverse('agent-new')}?harness=claude-code"
    assert f'href="{address}"' in listed
    assert client.get(address).status_code == 200
