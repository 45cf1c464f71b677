"""The worst texts that an agent elsewhere can send, on a real server, by the time of its pages."""

from __future__ import annotations

import json
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
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
"""Of the server's processor time."""
MAX_SLOWDOWN = 5
"""Of a page by the worst texts, where other work makes the machine itself slow."""
MAX_STEP = 3
"""Limits that one page may take: it may fall together with the reading of the body."""
ALONE = 5
"""Pages that are visited before a text is sent."""
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


def alone(server: Server) -> float:
    """Return the seconds of the slowest page while nothing is sent."""
    visit(server.url)  # what only a first page takes
    return max(visit(server.url) for _ in range(ALONE))


def test_page_of_a_visitor_is_fast_while_an_agent_sends_its_worst(
    server: Server, run: Run, secret: str
) -> None:
    for bait in BAITS:
        limit = max(MAX_VISIT_SECONDS, MAX_SLOWDOWN * alone(server))
        text = bait * (BODY_CHARACTERS // len(json.dumps(bait)[1:-1]))
        event = {"kind": "log", "body": {"text": text}}
        visits = []
        with ThreadPoolExecutor(1) as sender:
            first = BAITS.index(bait) + 1
            sending = sender.submit(send, server, run, secret, first, event)
            while not sending.done():
                visits.append(visit(server.url))
            assert sending.result() == first + 1
        *others, slowest = sorted(visits) or [0.0]
        assert slowest < MAX_STEP * limit, f"{bait!r}: {visits}"
        assert max(others, default=0.0) < limit, f"{bait!r}: {visits}"


@pytest.mark.parametrize("language", FENCES)
def test_trace_with_the_worst_messages_opens_in_time(
    server: Server, run: Run, secret: str, language: str
) -> None:
    texts = [f"```{language}\n{filling}\n```" for filling in FILLINGS]
    events = [{"kind": "message", "body": {"role": "assistant", "text": text}} for text in texts]
    assert send(server, run, secret, 1, *events) == len(events) + 1
    visit(server.url)
    spent = psutil.Process(server.process.pid)
    for path in (f"/runs/{run.pk}/", f"/runs/{run.pk}/events/"):
        before = sum(spent.cpu_times()[:2])
        visit(f"{server.url}{path}")
        assert sum(spent.cpu_times()[:2]) - before < MAX_TRACE_SECONDS, path
