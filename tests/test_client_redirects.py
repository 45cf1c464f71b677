"""Tests of the client before a server that redirects: it would be given the token."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from arena_client import Arena, ArenaError


class Elsewhere(BaseHTTPRequestHandler):
    """Answers each request, and keeps its headers."""

    def do_GET(self) -> None:
        self.server.seen.append(dict(self.headers))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"[]")

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


class Redirecting(Elsewhere):
    def do_GET(self) -> None:
        status, target = self.server.redirect  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("Location", target)
        self.end_headers()

    do_POST = do_GET


def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.seen = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def elsewhere() -> Iterator[ThreadingHTTPServer]:
    yield from serving(Elsewhere)


@pytest.fixture
def arena() -> Iterator[ThreadingHTTPServer]:
    yield from serving(Redirecting)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["read", "write"])
def test_redirect_is_refused_and_gives_no_token_away(arena, elsewhere, status, method):
    target = f"http://127.0.0.1:{elsewhere.server_port}"
    arena.redirect = status, f"{target}/api/v1/tasks"
    client = Arena(f"http://127.0.0.1:{arena.server_port}", "arena_secret")
    with pytest.raises(ArenaError) as refused:
        client.tasks() if method == "read" else client.cancel("k3q8v2m0c7xd")
    assert elsewhere.seen == []
    assert refused.value.status == status


def test_refusal_of_a_redirect_names_where_it_leads(arena, elsewhere):
    target = f"http://127.0.0.1:{elsewhere.server_port}"
    arena.redirect = 302, f"{target}/login/?token=x"
    with pytest.raises(ArenaError) as refused:
        Arena(f"http://127.0.0.1:{arena.server_port}", "arena_secret").tasks()
    assert str(refused.value) == (
        f"The arena redirects to {target}. Set ARENA_URL to its own address."
    )
