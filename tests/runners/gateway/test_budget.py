"""Upper bounds of usage, and the admission of calls against a budget."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runners.gateway.budget import MAX_OUTPUT_TOKENS, Amount, Budget, usage_bound
from runners.gateway.wire import FORMATS
from tests.waiting import turns


@pytest.mark.parametrize(
    ("wire", "request_body", "output"),
    [
        ("messages", {"max_tokens": 100}, 100),
        ("messages", {"max_tokens": 10**9}, MAX_OUTPUT_TOKENS),
        ("messages", {"max_tokens": -5}, MAX_OUTPUT_TOKENS),
        ("messages", {"max_tokens": "9"}, MAX_OUTPUT_TOKENS),
        ("messages", {}, MAX_OUTPUT_TOKENS),
        ("messages", ["no object"], MAX_OUTPUT_TOKENS),
        ("messages", None, MAX_OUTPUT_TOKENS),
        ("chat-completions", {"max_tokens": 1, "max_completion_tokens": 70}, 70),
        ("chat-completions", {"max_tokens": 90, "n": 3}, 270),
        ("responses", {"max_output_tokens": 60}, 60),
        ("responses", {"max_tokens": 1}, MAX_OUTPUT_TOKENS),
        (
            "generate-content",
            {"generationConfig": {"maxOutputTokens": 80, "candidateCount": 2}},
            160,
        ),
    ],
)
def test_usage_bound_is_the_largest_output_of_a_request(
    wire: str, request_body: Any, output: int
) -> None:
    bound = usage_bound(FORMATS[wire], request_body, 300)
    assert (bound.input_tokens, bound.output_tokens) == (101, output)


def test_call_waits_for_one_in_flight_that_could_reach_a_limit() -> None:
    async def case() -> None:
        budget = Budget(Amount(tokens=100))
        assert await budget.wait() == ""
        budget.admit("first", Amount(tokens=99, turns=1))
        assert await budget.wait() == ""
        budget.admit("second", Amount(tokens=1, turns=1))
        third = asyncio.create_task(budget.wait())
        await turns()
        assert not third.done()
        budget.settle("first", Amount(tokens=10, turns=1))
        assert await third == ""
        budget.settle("first", Amount(tokens=1000))
        assert budget.used == Amount(tokens=10, turns=1)
        budget.settle("second", Amount(tokens=90, turns=1))
        assert await budget.wait() == "tokens"

    asyncio.run(case())


def test_call_larger_than_the_whole_budget_is_admitted_alone() -> None:
    async def case() -> None:
        budget = Budget(Amount(usd=1.0))
        assert await budget.wait() == ""
        budget.admit("first", Amount(usd=50.0, turns=1))
        second = asyncio.create_task(budget.wait())
        await turns()
        assert not second.done()
        budget.settle("first", Amount(usd=0.1, turns=1))
        assert await second == ""

    asyncio.run(case())
