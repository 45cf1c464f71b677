"""Tests of the pages of quarantine and of the audit log."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from arena.audit.models import AuditEntry
from arena.curation import quarantine
from arena.errors import Forbidden
from tests.arena.factories import finished


@pytest.fixture
def page(client: Client, staff: Any) -> Client:
    client.force_login(staff)
    return client


def test_run_in_quarantine_shows_the_reason_to_everybody(
    page: Client, start: Any, client: Client
) -> None:
    run = finished(start())
    data = {"kind": "run", "name": run.pk, "reason": "It read the clock."}
    assert page.post(reverse("quarantine"), data).status_code == 302
    assert "It read the clock." in Client().get(reverse("run", args=[run.pk])).content.decode()
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.text) == ("run.quarantine", "It read the clock.")
    assert run.pk in page.get(reverse("quarantine")).content.decode()
    assert page.post(reverse("quarantine"), {**data, "release": "1"}).status_code == 302
    run.refresh_from_db()
    assert run.quarantined_at is None


def test_agent_in_quarantine_is_listed(page: Client, start: Any) -> None:
    agent = finished(start()).agent
    data = {"kind": "agent", "name": agent.slug, "reason": "Its harness leaks."}
    page.post(reverse("quarantine"), data)
    assert "Its harness leaks." in page.get(reverse("quarantine")).content.decode()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        ({"kind": "run", "name": "unknown", "reason": "r"}, 404),
        ({"kind": "house", "name": "x", "reason": "r"}, 404),
        ({"kind": "run", "name": "{run}", "reason": " "}, 400),
        ({"kind": "run", "name": "{run}", "release": "1"}, 409),
        ({}, 404),
    ],
)
def test_bad_quarantine_is_refused(
    page: Client, start: Any, data: dict[str, str], status: int
) -> None:
    run = finished(start())
    given = {name: value.format(run=run.pk) for name, value in data.items()}
    answer = page.post(reverse("quarantine"), given)
    assert answer.status_code == status
    assert b'role="alert"' in answer.content
    assert not AuditEntry.objects.exists()


def test_only_staff_decide_on_a_quarantine(start: Any, reviewer: Any) -> None:
    with pytest.raises(Forbidden):
        quarantine.hold(reviewer, "run", finished(start()).pk, "r")


def test_audit_log_is_filtered(page: Client, start: Any, staff: Any) -> None:
    run = finished(start())
    quarantine.hold(staff, "run", run.pk, "First reason.")
    quarantine.free(staff, "run", run.pk, "Second reason.")
    both = page.get(reverse("audit")).content.decode()
    assert "First reason." in both and "Second reason." in both
    one = page.get(reverse("audit"), {"action": "run.release", "actor": "ada"}).content.decode()
    assert "First reason." not in one and "Second reason." in one
    assert "No entry matches" in page.get(reverse("audit"), {"text": "nothing"}).content.decode()
    assert page.get(reverse("audit"), {"page": "x"}).status_code == 200


def test_change_in_the_admin_is_in_the_audit_log(client: Client, db: None) -> None:
    root = get_user_model().objects.create_superuser("root")
    client.force_login(root)
    data = {"username": "new", "password1": "a-long-one-17", "password2": "a-long-one-17"}
    client.post(reverse("admin:accounts_user_add"), {**data, "usable_password": "true"})
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_label, entry.actor) == ("admin.add", "new", root)
