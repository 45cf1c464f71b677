"""People who curate, and a small draft that is valid."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from arena.catalog.models import Hardware, Worker
from arena.curation import checks, drafts
from arena.curation.models import Check, Draft
from evaluation.types import to_json
from tests.arena.factories import LEASE

NAME = "vector_sum"


@pytest.fixture
def staff(db: None) -> Any:
    return get_user_model().objects.create_user("ada", password="x", is_staff=True)


@pytest.fixture
def reviewer(db: None) -> Any:
    user = get_user_model().objects.create_user("grace", password="x")
    user.groups.add(Group.objects.get_or_create(name="Reviewers")[0])
    return user


@pytest.fixture
def draft(staff: Any) -> Draft:
    return drafts.create_from_form(staff, NAME, "Vector sum")


@pytest.fixture
def bench(db: None) -> Hardware:
    """Hardware of a live worker."""
    hardware = Hardware.objects.create(slug="cpu", name="A CPU", kind="cpu", queue="hw.cpu")
    Worker.objects.create(name="w", hardware=hardware, queues=["hw.cpu"], pid=1)
    return hardware


def admission(task: str, task_hash: str, admitted: bool = True) -> dict[str, Any]:
    roles = ("probe", "mutant", "honest")
    return {
        "type": "admission", "task": task, "task_hash": task_hash, "admitted": admitted,
        "only_unsteady": False, "attempts": [{"role": role} for role in roles],
        "problems": [] if admitted else ["mutant no_scale passed: correct it"],
    }  # fmt: skip


def checked(draft: Draft, user: Any, admitted: bool = True, *bodies: dict[str, Any]) -> Check:
    """Return a check of the draft that a worker has ended."""
    check = checks.request_check(draft, user)
    assert checks.claim_check(check.pk, LEASE)
    checks.add_steps(check.pk, LEASE, [to_json(body) for body in bodies])
    assert checks.finish_check(check.pk, LEASE, admitted)
    check.refresh_from_db()
    return check
