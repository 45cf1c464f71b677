"""Requests whose text no database can store are refused before anything looks it up."""

from __future__ import annotations

from typing import Any

import pytest

from arena.text import PROBLEM

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "url",
    [
        "tasks?suite=%00",
        "tasks?category=a%00b",
        "tasks?a%00b=1",
        "tasks?track=a&track=%00",
        "runs?agent=%00",
    ],
)
def test_nul_in_a_query_is_refused_by_the_api_with_the_reason(client: Any, url: str) -> None:
    answer = client.get(f"/api/v1/{url}")
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert PROBLEM in error["message"] and error["hint"]


@pytest.mark.parametrize(
    "url",
    [
        "/tasks/?q=%00%25_",
        "/leaderboard/?category=%00",
        "/runs/?q=%00",
        "/runs/%00/",
        "/kernels/?hardware=%00",
        "/curate/audit/?text=%00",
    ],
)
def test_nul_in_the_address_of_a_page_is_refused_with_the_reason(client: Any, url: str) -> None:
    answer = client.get(url)
    assert answer.status_code == 400
    assert PROBLEM in answer.content.decode()


def test_refusal_shows_who_is_logged_in(client: Any, alice: Any) -> None:
    client.force_login(alice)
    page = client.get("/tasks/?q=%00").content.decode()
    assert alice.username in page and "Sign up" not in page
