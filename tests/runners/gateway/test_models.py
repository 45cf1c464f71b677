"""The gateway passes requests for the model of a run's agent, and refuses all others."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from runners.gateway.server import MAX_REFUSED
from runners.gateway.traffic import Replay, TrafficWriter
from tests.runners.gateway.test_server import TOKEN, bench

MESSAGES, RESPONSES, CHAT = "/v1/messages", "/v1/responses", "/v1/chat/completions"
OWN = {"model": "m-1", "stream": True}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (MESSAGES, OWN),
        (MESSAGES, {**OWN, "tools": [{"name": "advisor", "model": "m-1"}, {"name": "Bash"}]}),
        (RESPONSES, OWN),
        (CHAT, {**OWN, "models": ["m-1"]}),
        ("/v1/models/m-1:generateContent", {}),
        ("/v1beta/models/m-1:streamGenerateContent", {"model": "another"}),
    ],
)
def test_request_for_the_agents_model_passes(path: str, body: dict[str, Any]) -> None:
    async def case() -> None:
        async with bench() as b:
            assert (await b.post(path, body))[0] == 200
            (call,) = b.of("model_call")
            assert call["requested_model"] == "m-1"

    asyncio.run(case())


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        (MESSAGES, {"model": "m-2"}, "'m-2'"),
        (MESSAGES, {"model": "M-1"}, "'M-1'"),
        (MESSAGES, {**OWN, "Model": "m-2"}, "'m-2'"),
        (MESSAGES, {**OWN, "tools": [{"name": "advisor", "model": "m-2"}]}, "'m-2'"),
        (MESSAGES, {}, "names no model"),
        (MESSAGES, {"model": 1}, "names no model"),
        (MESSAGES, [], "names no model"),
        (RESPONSES, {"model": "m-1-pro"}, "'m-1-pro'"),
        (CHAT, {**OWN, "models": ["m-1", "m-2"]}, "'m-2'"),
        ("/v1/models/m-2:generateContent", {"model": "m-1"}, "'m-2'"),
        ("/v1beta/models/m-2:streamGenerateContent", {"model": "m-1"}, "'m-2'"),
    ],
)
def test_request_for_another_model_is_refused_and_reported(
    path: str, body: Any, named: str
) -> None:
    async def case() -> None:
        async with bench() as b:
            status, answer = await b.post(path, body)
            assert status == 403 and b.requests == []
            text = json.loads(answer)["error"]["message"]
            assert named in text and "'m-1' only" in text
            assert [kind for kind, _ in b.reports] == ["refused"]
            assert named in b.reports[0][1]["text"]

    asyncio.run(case())


def test_body_with_two_models_under_one_name_is_refused() -> None:
    async def case() -> None:
        async with bench() as b:
            body = b'{"model": "m-2", "model": "m-1"}'
            url, headers = b.url + MESSAGES, {"x-api-key": TOKEN}
            async with b.client.post(url, data=body, headers=headers) as answer:
                assert answer.status == 403
            assert b.requests == []

    asyncio.run(case())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (MESSAGES, {"type": "permission_error"}),
        (RESPONSES, {"type": "permission_error", "code": "permission_error"}),
        ("/v1beta/models/m-2:generateContent", {"code": 403, "status": "PERMISSION_DENIED"}),
    ],
)
def test_refusal_has_the_error_format_of_the_provider(path: str, expected: dict[str, Any]) -> None:
    async def case() -> None:
        async with bench() as b:
            _, answer = await b.post(path, {"model": "m-2"})
            error = json.loads(answer)["error"]
            assert {name: error.get(name) for name in expected} == expected

    asyncio.run(case())


def test_refused_models_are_reported_once_each_and_up_to_a_limit() -> None:
    async def case() -> None:
        async with bench() as b:
            for _ in range(2):
                await b.post(body={"model": "m-2"})
            assert len(b.of("refused")) == 1
            for number in range(MAX_REFUSED + 5):
                await b.post(body={"model": f"other-{number}" * 100})
            texts = [facts["text"] for facts in b.of("refused")]
            assert len(texts) == MAX_REFUSED and max(map(len, texts)) < 400

    asyncio.run(case())


def test_replay_serves_no_other_model(tmp_path: Path) -> None:
    path = tmp_path / "traffic.jsonl"

    async def record() -> None:
        async with bench(settings={"model": "m-2"}, writer=TrafficWriter(path)) as b:
            assert (await b.post(body={"model": "m-2"}))[0] == 200

    async def replay() -> None:
        async with bench(replay=Replay.read(path)) as b:
            assert (await b.post(body={"model": "m-2"}))[0] == 403

    asyncio.run(record())
    asyncio.run(replay())
