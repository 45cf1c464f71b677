"""Tests of the audit log: every action of staff writes one entry, and those of others none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from arena.accounts.models import ApiToken, User
from arena.audit.models import AuditEntry
from arena.catalog.models import Harness
from arena.catalog.services import create_agent, update_agent
from arena.runs import experiments, services
from arena.runs.models import Experiment
from runners.catalog import sync
from tests.arena.factories import LEASE, finished

pytestmark = pytest.mark.django_db


def entries() -> list[tuple[str, str, str]]:
    """Return actor, action and object of each entry, oldest first."""
    rows = AuditEntry.objects.order_by("pk")
    return list(rows.values_list("actor_name", "action", "object_label"))


def broken(run: Any) -> Any:
    services.claim_run(run.pk, LEASE)
    services.finish_run(run.pk, LEASE, "broken", "Gone.", "arena")
    run.refresh_from_db()
    return run


def test_cancellation_by_staff_is_recorded_and_by_the_owner_is_not(
    start: Any, alice: Any, bob: Any
) -> None:
    mine, other, third = start(owner=alice), start(owner=alice), start(owner=alice)
    services.cancel_run(mine, alice)
    assert entries() == []
    services.cancel_run(other, bob)
    services.cancel_run(other, bob)  # changes nothing
    services.cancel_run(third, None)
    assert entries() == [
        ("bob", "run.cancel", other.pk), ("command line", "run.cancel", third.pk),
    ]  # fmt: skip


def test_start_by_staff_is_recorded(client: Client, start: Any, alice: Any, bob: Any) -> None:
    start()  # brings the task, the agent and the device
    for user in (alice, bob):
        _, token = ApiToken.issue(user, "laptop", ["run"])
        answer = client.post(
            "/api/v1/runs",
            {"agent": "tuner", "task": "relu/cpp-to-cpp"},
            "application/json",
            headers={"Authorization": f"Bearer {token}"},
        )
        assert answer.status_code == 201, answer.content
    assert ("bob", "run.start", answer.json()["id"]) in entries()
    assert [actor for actor, action, _ in entries() if action == "run.start"] == ["bob"]


def test_continuation_by_staff_is_recorded(start: Any, alice: Any, bob: Any) -> None:
    services.continue_run(broken(start(owner=alice)), alice)
    assert entries() == []
    made = services.continue_run(broken(start(owner=alice, repeat=1)), bob)
    assert entries() == [("bob", "run.continue", made.pk)]


def test_experiment_of_staff_is_recorded_once(start: Any, alice: Any, bob: Any) -> None:
    def plan(slug: str) -> experiments.Plan:
        agents = [experiments.Entrant(agent="tuner", tasks=["relu/cpp-to-cpp"])]
        return experiments.Plan(
            slug=slug, title="T", agents=agents, tasks=["relu/cpp-to-cpp"], repeats=2
        )

    experiments.start(plan("hers"), owner=alice)
    assert entries() == []
    for _ in range(2):  # the second call starts nothing
        experiments.start(plan("his"), owner=bob)
    assert entries() == [("bob", "experiment.start", "his")]
    assert AuditEntry.objects.get().url == Experiment.objects.get(slug="his").get_absolute_url()


def test_tokens_of_staff_are_recorded_on_pages_and_in_the_admin(client: Client, alice: Any) -> None:
    root = User.objects.create_superuser("root", password="root")
    client.force_login(alice)
    form = {"name": "laptop", "scopes": ["read"], "days": "7"}
    assert client.post(reverse("account"), form).status_code == 200
    client.post(reverse("token-revoke", args=[ApiToken.objects.get().pk]))
    assert ApiToken.objects.get().state == "revoked" and entries() == []

    client.force_login(root)
    client.post(reverse("account"), form)
    own = ApiToken.objects.get(user=root)
    client.post(reverse("token-revoke", args=[own.pk]))
    theirs, _ = ApiToken.issue(alice, "server", ["read"])
    action = {"action": "revoke", "_selected_action": [theirs.pk]}
    client.post(reverse("admin:accounts_apitoken_changelist"), action)
    assert entries() == [
        ("root", "token.issue", str(own)),
        ("root", "token.revoke", str(own)),
        ("root", "token.revoke", str(theirs)),
    ]


def test_change_of_a_role_names_the_role(client: Client, alice: Any) -> None:
    client.force_login(User.objects.create_superuser("root", password="root"))
    address = reverse("admin:accounts_user_change", args=[alice.pk])
    reviewers = Group.objects.get(name="Reviewers")
    form = {
        "username": "alice", "is_active": "on", "date_joined_0": "2026-01-01",
        "date_joined_1": "00:00:00",
    }  # fmt: skip
    for groups in ([reviewers.pk], []):
        answer = client.post(address, {**form, "groups": groups})
        assert answer.status_code == 302, answer.context["adminform"].form.errors
    found = [entry for entry in entries() if entry[1].startswith("role.")]
    assert found == [("root", "role.grant", "alice"), ("root", "role.revoke", "alice")]
    grant = AuditEntry.objects.get(action="role.grant")
    assert grant.text == "Reviewers"


def test_agents_that_are_made_and_changed_are_recorded(bob: Any) -> None:
    Harness.objects.create(name="tuner", title="Tuner")
    agent = create_agent(adapter="tuner", slug="mine", title="Mine", by=bob)
    update_agent(agent, bob, title="Mine")  # changes nothing
    update_agent(agent, bob, title="Ours")
    assert entries() == [("bob", "agent.create", "mine"), ("bob", "agent.change", "mine")]
    assert AuditEntry.objects.first().text == "Changed: title."


def test_sync_that_changes_the_catalog_is_recorded_once(
    settings: Any, tmp_path: Path, repository: Path
) -> None:
    settings.ARENA_TASKS = tmp_path
    (tmp_path / "rms_norm").symlink_to(repository / "tasks" / "Normalization" / "rms_norm")
    settings.ADMISSIONS = tmp_path / "none.json"
    for _ in range(2):
        sync()
    (entry,) = AuditEntry.objects.all()
    assert (entry.actor_name, entry.action) == ("command line", "catalog.sync")
    assert "added" in entry.text and "rms_norm/torch-to-cpp" in entry.detail["added"]


def test_action_in_the_admin_is_recorded(client: Client, start: Any) -> None:
    client.force_login(User.objects.create_superuser("root", password="root"))
    run = finished(start())
    type(run).objects.filter(pk=run.pk).update(visibility="staff")
    action = {"action": "show", "_selected_action": [run.pk]}
    client.post(reverse("admin:runs_run_changelist"), action)
    assert entries() == [("root", "admin.change", run.pk)]
