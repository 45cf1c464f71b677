"""Tests of what caches may keep of a page, and of the header by which browsers stay with TLS."""

from __future__ import annotations

import pytest
from django.test import Client

from arena.accounts.models import ApiToken
from tests.arena.factories import finished

pytestmark = pytest.mark.django_db
PAGES = (
    "/runs/{run}/", "/runs/{run}/summary/", "/runs/{run}/events/", "/runs/{run}/moments/",
    "/runs/{run}/rounds/1/", "/runs/{run}/rounds/1/files/relu.cpp", "/runs/", "/account/",
    "/compare/?run={run}", "/api/v1/runs/{run}", "/api/v1/runs/{run}/events",
    "/api/v1/runs", "/",
)  # fmt: skip


def kept(client: Client, path: str, **headers: str) -> set[str]:
    """Return the parts of Cache-Control of a page that a user can see."""
    response = client.get(path, headers=headers)
    assert response.status_code == 200, path
    return set(filter(None, response.headers.get("Cache-Control", "").split(", ")))


@pytest.fixture
def run(start, alice):
    return finished(start(owner=alice, visibility="owner"))


@pytest.mark.parametrize("path", PAGES)
def test_page_of_a_private_run_is_stored_by_nothing(client, run, alice, bob, path):
    for user in (alice, bob):
        client.force_login(user)
        assert {"private", "no-store"} <= kept(client, path.format(run=run.pk))


def test_answer_to_a_token_is_stored_by_nothing(client, run, alice):
    _, secret = ApiToken.issue(alice, "one", ["read"])
    found = kept(client, f"/api/v1/runs/{run.pk}", authorization=f"Bearer {secret}")
    assert {"private", "no-store"} <= found


def test_page_of_everybody_may_be_kept_by_a_browser(client, start):
    public = finished(start())
    for path in ("/", f"/runs/{public.pk}/", f"/api/v1/runs/{public.pk}", "/leaderboard/"):
        assert kept(client, path) == set()


def test_browsers_stay_with_tls_where_the_settings_say_that_there_is_no_other(client, settings):
    for secure in (False, True):
        settings.SESSION_COOKIE_SECURE = secure
        for path in ("/", "/api/v1/tasks", "/no/such/page/"):
            sent = client.get(path).headers.get("Strict-Transport-Security")
            assert sent == ("max-age=31536000" if secure else None), path
