"""Tests of the reviewers of a draft: chosen on its page, and shown what waits for them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from arena.audit.models import AuditEntry
from arena.catalog.models import Hardware
from arena.curation import drafts
from arena.curation.models import Draft
from arena.errors import Conflict, Forbidden, NotFound, UserError
from tests.arena.curation.conftest import checked


@pytest.fixture
def third(django_user_model: Any) -> Any:
    return django_user_model.objects.create_user("mary", is_staff=True)


@pytest.fixture
def in_review(draft: Draft, staff: Any, bench: Hardware) -> Draft:
    checked(draft, staff)
    drafts.request_review(draft, staff)
    return draft


def act(client: Client, draft: Draft, action: str, **form: str) -> str:
    """Return the page that shows what came of an action."""
    address = reverse("draft-act", args=[draft.pk, action])
    return client.post(address, form, follow=True).content.decode()


def offered(page: str) -> list[str]:
    choices = re.search(r'<select name="reviewer">(.*?)</select>', page, re.DOTALL)
    return re.findall(r'<option value="(\w+)"', choices[1]) if choices else []


def test_reviewer_is_chosen_and_removed_on_the_page(
    client: Client, in_review: Draft, staff: Any, reviewer: Any, third: Any
) -> None:
    client.force_login(staff)
    page = client.get(in_review.get_absolute_url()).content.decode()
    assert offered(page) == ["grace", "mary"] and "any reviewer or staff" in page
    page = act(client, in_review, "add-reviewer", reviewer="grace")
    assert "The draft waits for a review by grace." in page and offered(page) == ["mary"]
    page = act(client, in_review, "remove-reviewer", reviewer="grace")
    assert offered(page) == ["grace", "mary"] and "waits for a second person" in page
    actions = AuditEntry.objects.filter(action__endswith="-reviewer", text="grace")
    assert sorted(actions.values_list("action", flat=True)) == [
        "draft.add-reviewer", "draft.remove-reviewer",
    ]  # fmt: skip


def test_draft_waits_in_the_list_of_the_chosen_reviewer_alone(
    client: Client, in_review: Draft, staff: Any, reviewer: Any, third: Any
) -> None:
    def waits_for(user: Any) -> bool:
        client.force_login(user)
        text = client.get(reverse("curate")).content.decode()
        assert ("to review</span>" in text) == ("Waiting for your review" in text)
        assert text.count(f'href="{in_review.get_absolute_url()}"') == 1
        return "Waiting for your review" in text

    assert [waits_for(user) for user in (staff, reviewer, third)] == [False, True, True]
    drafts.add_reviewer(in_review, staff, "grace")
    assert [waits_for(user) for user in (staff, reviewer, third)] == [False, True, False]


def test_only_a_chosen_reviewer_approves(
    client: Client, in_review: Draft, staff: Any, reviewer: Any, third: Any
) -> None:
    drafts.add_reviewer(in_review, staff, "grace")
    client.force_login(third)
    page = client.get(in_review.get_absolute_url()).content.decode()
    assert "add yourself below" in page and 'value="approve"' not in page
    with pytest.raises(Forbidden, match="Others were chosen"):
        drafts.review(in_review, third, in_review.content_hash, True, "")
    page = act(client, in_review, "add-reviewer", reviewer="mary")
    assert "needs the approval of one of them" in page and 'value="approve"' in page
    drafts.review(in_review, third, in_review.content_hash, True, "")
    assert in_review.state == "approved"
    with pytest.raises(Conflict, match="is approved"):
        drafts.add_reviewer(in_review, staff, "grace")


def test_draft_waits_for_everybody_once_its_chosen_reviewers_cannot_review(
    client: Client, in_review: Draft, staff: Any, reviewer: Any, third: Any, django_user_model: Any
) -> None:
    gone = django_user_model.objects.create_user("gone", is_staff=True)
    for name in ("grace", "gone"):
        drafts.add_reviewer(in_review, staff, name)
    reviewer.groups.clear()
    assert not Draft.objects.waiting_for(third).exists()
    django_user_model.objects.filter(pk=gone.pk).update(is_active=False)
    assert list(Draft.objects.waiting_for(third)) == [in_review]
    client.force_login(third)
    assert '<td data-label="Reviewers">any</td>' in client.get(reverse("curate")).content.decode()
    page = client.get(in_review.get_absolute_url()).content.decode()
    assert 'value="approve"' in page and "Nobody" in page
    drafts.review(in_review, third, in_review.content_hash, True, "")


@pytest.mark.parametrize("name", ["ada", "eve", "old", "nobody", ""])
def test_who_cannot_review_a_draft_is_not_chosen(
    draft: Draft, staff: Any, django_user_model: Any, name: str
) -> None:
    django_user_model.objects.create_user("eve")
    django_user_model.objects.create_user("old", is_staff=True, is_active=False)
    with pytest.raises(UserError, match="cannot review this draft"):
        drafts.add_reviewer(draft, staff, name)
    with pytest.raises(NotFound, match="is not among the reviewers"):
        drafts.remove_reviewer(draft, staff, name)
    assert not draft.reviewers.exists()


def test_reviewer_who_edits_a_draft_is_not_its_reviewer_any_more(
    draft: Draft, staff: Any, reviewer: Any
) -> None:
    drafts.add_reviewer(draft, staff, "grace")
    drafts.save_file(draft, reviewer, "prompt.md", "Add.")
    assert not draft.reviewers.exists()
    with pytest.raises(UserError, match="cannot review this draft"):
        drafts.add_reviewer(draft, staff, "grace")


def test_closed_draft_takes_no_reviewer(draft: Draft, staff: Any, reviewer: Any) -> None:
    drafts.discard(draft, staff)
    with pytest.raises(Conflict, match="is closed"):
        drafts.add_reviewer(draft, staff, "grace")


def test_arena_without_another_reviewer_leads_to_the_group(
    client: Client, draft: Draft, staff: Any, django_user_model: Any
) -> None:
    client.force_login(staff)
    page = client.get(draft.get_absolute_url()).content.decode()
    assert "No other user can review it" in page and "/docs/deployment/#accounts" in page
    client.force_login(django_user_model.objects.create_superuser("owner"))
    drafts.save_file(draft, django_user_model.objects.get(username="owner"), "prompt.md", "Add.")
    page = client.get(draft.get_absolute_url()).content.decode()
    assert "No other user can review it" in page and "/admin/accounts/user/" in page
