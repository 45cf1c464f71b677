"""The web server: bodies that are too large or too slow are refused while they arrive."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from arena.web_server import APPLICATION, MAX_ANSWER_SECONDS, MAX_BODY_BYTES, CommandLine
from tests.waiting import PATIENCE_SECONDS
from tests.web.conftest import Server, environment_of

HEAD = "POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n"
PART = bytes(64 << 10)


@pytest.fixture(scope="module")
def impatient(
    django_db_setup: None, valkey: str, tmp_path_factory: pytest.TempPathFactory, repository: Path
) -> Iterator[Server]:
    """Start a server that waits a second for a body."""
    folder = tmp_path_factory.mktemp("impatient")
    environment = environment_of(folder, valkey, repository)
    running = Server(environment, folder / "web.log", options=("--body-timeout", "1"))
    running.start()
    yield running
    running.kill()


def begin(server: Server, length: str) -> socket.socket:
    """Connect, and send the head of a request."""
    client = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)
    client.sendall(f"{HEAD}{length}\r\n\r\n".encode())
    return client


def answer(client: socket.socket) -> str:
    """Return what the server sends until it closes the connection."""
    parts = []
    with suppress(ConnectionResetError):
        while part := client.recv(1 << 16):
            parts.append(part)
    return b"".join(parts).decode()


def stored_bytes(server: Server) -> int:
    """Return the size of the nameless files that the server has open: bodies that it stores."""
    total = 0
    for number in os.listdir(folder := f"/proc/{server.process.pid}/fd"):
        with suppress(FileNotFoundError):
            found = os.stat(f"{folder}/{number}")
            total += found.st_size if stat.S_ISREG(found.st_mode) and not found.st_nlink else 0
    return total


def test_body_that_names_a_large_size_is_refused_before_it_is_sent(server: Server) -> None:
    with begin(server, f"Content-Length: {100 << 30}") as client:
        refusal = client.recv(1 << 16).decode()
        assert refusal.startswith("HTTP/1.1 413 ")
        assert f"{MAX_BODY_BYTES} bytes at most" in refusal
        with suppress(ConnectionError):  # it lingers for some seconds only
            for _ in range(256):
                client.sendall(PART)
        assert stored_bytes(server) == 0


def test_body_in_chunks_is_refused_once_it_is_too_large(server: Server) -> None:
    with begin(server, "Transfer-Encoding: chunked") as client:
        chunk = f"{len(PART):x}\r\n".encode() + PART + b"\r\n"
        for _ in range(MAX_BODY_BYTES // len(PART) + 1):
            client.sendall(chunk)
        assert client.recv(1 << 16).decode().startswith("HTTP/1.1 413 ")
        assert stored_bytes(server) == 0


def test_body_refused_for_its_size_leaves_the_answer_readable(server: Server) -> None:
    size = MAX_BODY_BYTES + 1
    with begin(server, f"Content-Length: {size}") as client:
        client.sendall(bytes(size))
        assert answer(client).startswith("HTTP/1.1 413 ")


def test_largest_body_reaches_the_application(server: Server) -> None:
    with begin(server, f"Connection: close\r\nContent-Length: {MAX_BODY_BYTES}") as client:
        client.sendall(bytes(MAX_BODY_BYTES))
        assert answer(client).startswith("HTTP/1.1 403 "), "it has no token against forgery"


def test_slow_body_is_ended(impatient: Server) -> None:
    with begin(impatient, "Content-Length: 9") as client:
        client.sendall(b"slow")
        assert answer(client).startswith("HTTP/1.1 408 ")
    assert impatient.answers()


def test_answers_have_a_time_limit() -> None:
    options = CommandLine().parser.parse_args([APPLICATION])
    assert options.http_timeout == MAX_ANSWER_SECONDS
