"""Tests of what the client says to odd tokens, addresses and answers: no traceback, no token."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

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
