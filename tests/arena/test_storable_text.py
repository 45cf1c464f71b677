"""Requests whose text no database can store are refused before anything looks it up."""

from __future__ import annotations

from typing import Any

import pytest

from arena.text import PROBLEM

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("query", ["suite=%00", "category=a%00b", "a%00b=1", "track=a&track=%00"])
def test_nul_in_a_query_is_refused_by_the_api_with_the_reason(client: Any, query: str) -> None:
    answer = client.get(f"/api/v1/tasks?{query}")
    assert answer.status_code == 400
    assert PROBLEM in answer.json()["error"]["message"]


@pytest.mark.parametrize("url", ["/tasks/?q=%00", "/leaderboard/?category=%00", "/runs/%00/"])
def test_nul_in_the_address_of_a_page_is_refused_with_the_reason(client: Any, url: str) -> None:
    answer = client.get(url)
    assert answer.status_code == 400
    assert PROBLEM in answer.content.decode()
