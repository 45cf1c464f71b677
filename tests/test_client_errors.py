"""Tests of what the client says to odd tokens, addresses and answers: no traceback, no token."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from arena_client import Arena, ArenaError
from arena_client.__main__ import FAULT, USAGE, main

SECRET = "arena_a1b2c3d4e5f6a7b8"


@pytest.mark.parametrize("odd", ["\n", "\r\nX-Evil: 1", "\u00e9", "\u2019", "\x00", " ", "\udcff"])
def test_odd_token_is_an_error_that_does_not_repeat_it(
    odd: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ArenaError) as refused:
        Arena("http://127.0.0.1:9", f"{SECRET}{odd}{SECRET}")
    assert SECRET not in str(refused.value) and "/account/" in str(refused.value)
    if "\x00" not in odd:  # no variable can hold one
        monkeypatch.setenv("ARENA_TOKEN", f"{SECRET}{odd}{SECRET}")
        assert main(["watch", "r"]) == USAGE
        printed = capsys.readouterr()
        assert SECRET not in printed.err + printed.out and printed.err.startswith("arena: ")


def test_line_end_after_a_token_is_cut() -> None:
    Arena("http://127.0.0.1:9", f"{SECRET}\n")


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "arena", "http://a b/", "http://[x"])
def test_odd_address_is_a_usage_error(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--url", url, "watch", "r"]) in (USAGE, FAULT)
    assert "ARENA_URL" in capsys.readouterr().err


@pytest.fixture
def answer() -> Iterator[list[bytes]]:
    """Return a list whose first item each connection is answered with."""
    answers = [b""]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65_536)
                    connection.sendall(answers[0])

        threading.Thread(target=serve, daemon=True).start()
        answers.append(str(listener.getsockname()[1]).encode())
        yield answers


def test_refusal_of_who_has_no_token_names_the_variable(
    answer: list[bytes], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARENA_TOKEN", raising=False)
    said = b'{"error": {"message": "This needs a user.", "hint": "Send a header."}}'
    answer[0] = b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said)
    url = f"http://127.0.0.1:{answer[1].decode()}"
    assert main(["--url", url, "watch", "r"]) == USAGE
    assert f"Set ARENA_TOKEN to a token from {url}/account/." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>", FAULT),
        (b'HTTP/1.1 403 No\r\nContent-Length: 12\r\n\r\n{"error": 1}', USAGE),
        (b"HTTP/1.1 404 No\r\nContent-Length: 900\r\n\r\n{", USAGE),
    ],
)
def test_answer_of_no_arena_is_an_error_without_a_traceback(
    answer: list[bytes], sent: bytes, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    answer[0] = sent
    assert main(["--url", f"http://127.0.0.1:{answer[1].decode()}", "watch", "r"]) == code
    assert capsys.readouterr().err.startswith("arena: ")


ANSWERS = {
    "/api/v1/tasks/a/cpp-to-cpp": {"public": {"starter": {"a.cpp": ""}, "target_file": "a.cpp"}},
    "/api/v1/runs/there": {"last_seq": 0, "submissions": []},
}
"""Answers of an arena by address; it refuses any other request."""


class StandIn(BaseHTTPRequestHandler):
    """Answers with ANSWERS, and keeps what it is asked."""

    asked: ClassVar[list[tuple[str, Any]]]

    def do_GET(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        self.asked.append((self.path, json.loads(self.rfile.read(size) or "null")))
        found = ANSWERS.get(self.path)
        text = json.dumps(found or {"error": {"message": "There is none."}}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Any]]]:
    """Return the requests that come to the arena of ARENA_URL."""
    StandIn.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as server:
        monkeypatch.setenv("ARENA_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.delenv("ARENA_TOKEN", raising=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield StandIn.asked
        server.shutdown()


@pytest.mark.parametrize("run", ["k3q8", "http://127.0.0.1:8000/runs/k3q8/"])
def test_run_is_named_by_its_id_or_its_address(run: str, asked: list[tuple[str, Any]]) -> None:
    assert main(["watch", run]) == main(["download", run]) == USAGE
    paths = [path.removeprefix("/api/v1/runs/") for path, _ in asked]
    assert paths == ["k3q8/events?after=0&limit=500", "k3q8"]


def test_download_of_a_run_that_is_not_there_leaves_no_folder(
    asked: list[tuple[str, Any]], tmp_path: Path
) -> None:
    assert main(["download", "k3q8", str(tmp_path / "out")]) == USAGE
    assert asked and not (tmp_path / "out").exists()


def test_file_that_cannot_be_written_is_named_and_no_fault_of_the_arena(
    asked: list[tuple[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["download", "there", str(tmp_path / "file")]) == USAGE
    assert capsys.readouterr().err == f"arena: {tmp_path / 'file'}: File exists\n"


def test_agent_whose_start_is_refused_leaves_its_folder_empty(
    asked: list[tuple[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["agent", "true", "a/cpp-to-cpp", "--folder", str(tmp_path / "new"), "--rounds", "0"]
    for _ in range(2):
        assert main(words) == USAGE
        assert capsys.readouterr().err == "arena: There is none.\n"
    assert not list((tmp_path / "new").iterdir())
    assert asked[-1][1]["budget"] == {"rounds": 0}, "the arena says which numbers it takes"
