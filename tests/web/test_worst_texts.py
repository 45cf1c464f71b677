"""The worst texts that an agent elsewhere can send, on a real server, by the time of its pages."""

from __future__ import annotations

import json
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from arena.accounts.models import ApiToken
from arena.runs import services
from arena.runs.models import Run
from tests.waiting import PATIENCE_SECONDS
from tests.web.conftest import Server

pytestmark = [pytest.mark.serial, pytest.mark.django_db(transaction=True)]
BODY_CHARACTERS = 2_300_000  # a body has at most 2.5 MB
BAITS = ("-----BEGIN PRIVATE KEY-----", "PRIVATE KEY-----", "token=", "-eyJ", "\n", "\x90")
MAX_VISIT_SECONDS = 0.2
MAX_TRACE_SECONDS = 1.0
FENCES = ("autohotkey", "xpp", "easytrieve", "cpp", "python", "diff", "asm", "toml")
FILLINGS = ("\n" * 4000, "\t" * 1000, " " * 8000, (" " * 15 + "\n") * 999, "a(" * 4000)


@pytest.fixture
def run(server: Server, task: Any, hardware: Any, alice: Any) -> Run:
    """Return a public run of Alice's agent, which runs elsewhere."""
    return services.start_external_run(
        task_slug="relu/cpp-to-cpp", name="flood", owner=alice, visibility="public"
    )


@pytest.fixture
def secret(alice: Any) -> str:
    return ApiToken.issue(alice, "agent", ["ingest"])[1]


def send(server: Server, run: Run, secret: str, first: int, *events: dict[str, Any]) -> int:
    """Send events, and return the number of the next one."""
    request = urllib.request.Request(
        f"{server.url}/api/v1/runs/{run.pk}/events",
        json.dumps({"first": first, "events": events}).encode(),
        {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        return int(json.load(answer)["next"])


def visit(url: str) -> float:
    """Return the seconds of a page."""
    began = time.monotonic()
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as page:
        assert page.read()
    return time.monotonic() - began


def test_page_of_a_visitor_is_fast_while_an_agent_sends_its_worst(
    server: Server, run: Run, secret: str
) -> None:
    visit(server.url)  # what only a first page takes
    for bait in BAITS:
        text = bait * (BODY_CHARACTERS // len(json.dumps(bait)[1:-1]))
        event = {"kind": "log", "body": {"text": text}}
        visits = []
        with ThreadPoolExecutor(1) as sender:
            first = BAITS.index(bait) + 1
            sending = sender.submit(send, server, run, secret, first, event)
            while not sending.done():
                visits.append(visit(server.url))
            assert sending.result() == first + 1
        # One page may fall together with the reading of the body, which is a single step.
        slow = sorted(visits)[:-1]
        assert max(slow, default=0.0) < MAX_VISIT_SECONDS, f"{bait!r}: {visits}"


@pytest.mark.parametrize("language", FENCES)
def test_trace_with_the_worst_messages_opens_in_time(
    server: Server, run: Run, secret: str, language: str
) -> None:
    texts = [f"```{language}\n{filling}\n```" for filling in FILLINGS]
    events = [{"kind": "message", "body": {"role": "assistant", "text": text}} for text in texts]
    assert send(server, run, secret, 1, *events) == len(events) + 1
    visit(server.url)
    for path in (f"/runs/{run.pk}/", f"/runs/{run.pk}/events/"):
        assert visit(f"{server.url}{path}") < MAX_TRACE_SECONDS, path
