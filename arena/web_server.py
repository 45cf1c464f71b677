"""The web server: Daphne with limits on the size and the duration of a request.

    python -m arena.web_server --bind 127.0.0.1 --port 8000

Daphne stores a body as a whole before the application runs, and waits for its end without limit.
So the limits are here, where its parts arrive.
"""

from __future__ import annotations

import logging
import sys
import time
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import daphne.server
from daphne.cli import CommandLineInterface
from daphne.http_protocol import HTTPFactory, WebRequest

logger = logging.getLogger("arena.web_server")  # it runs as __main__

APPLICATION = "arena.asgi:application"
MAX_BODY_BYTES = 6 << 20
"""The largest form of a browser is an archive of a task, the largest API call a batch of events."""
MAX_BODY_SECONDS = 120.0
"""From the first line of a request to the end of its body."""
MAX_ANSWER_SECONDS = 120
LOGGED = {
    "client": "client",
    "method": "method",
    "path": "path",
    "status": "status",
    "bytes": "size",
    "seconds": "time_taken",
}
"""Values of a line about a request, with their names in Daphne."""
SIGN_IN = "/sign-in/"
"""Part of the paths that sign in whoever opens them; ARENA_PREFIX comes before it."""
LINGER_SECONDS = 5.0
"""A refused body is read and dropped this long: a connection closed at once could take the refusal
from a client that is still sending."""

TOO_LARGE = ("413 Content Too Large", f"A request has {MAX_BODY_BYTES} bytes at most.\n")
TOO_SLOW = ("408 Request Timeout", "The body of the request did not arrive in time.\n")


class Request(WebRequest):  # type: ignore[misc]  # it ships without types, as the others
    """A request that is refused while its body arrives, once that is too large or too slow."""

    _parsePOSTFormSubmission = False  # Django parses forms, in another thread

    def __init__(self, *args: Any, **more: Any) -> None:
        self.began = time.monotonic()
        self.size = 0
        self.complete = False
        self.refused_at: float | None = None
        super().__init__(*args, **more)

    def gotLength(self, length: int | None) -> None:
        """Receive the length of the body; None where it comes in chunks."""
        if length is not None and length > MAX_BODY_BYTES:
            self._refuse(*TOO_LARGE)
            length = 0
        super().gotLength(length)

    def handleContentChunk(self, data: bytes) -> None:
        """Store a part of the body, unless it is refused."""
        self.size += len(data)
        if self.refused_at is None and self.size > MAX_BODY_BYTES:
            self.content.truncate(0)
            self._refuse(*TOO_LARGE)
        if self.refused_at is None:
            super().handleContentChunk(data)

    def requestReceived(self, *args: Any) -> None:
        """Pass a request on once its body is complete."""
        self.complete = True
        if self.refused_at is None:
            super().requestReceived(*args)
        else:
            self.channel.loseConnection()

    def check_timeouts(self) -> None:
        """Refuse a body that is too slow, and close a refused connection. Daphne calls it often."""
        super().check_timeouts()
        if self.complete or self.channel is None:
            return
        now = time.monotonic()
        if self.refused_at is not None:
            if now > self.refused_at + LINGER_SECONDS:
                self.channel.transport.abortConnection()
        elif now > self.began + self.server.body_timeout:
            self._refuse(*TOO_SLOW)

    def _refuse(self, status: str, text: str) -> None:
        """Send a refusal; what else arrives is dropped."""
        self.refused_at = time.monotonic()
        self.requestHeaders.removeHeader(b"expect")  # else Twisted asks for the body
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
        )
        self.channel.transport.write((head + text).encode())


class Factory(HTTPFactory):  # type: ignore[misc]
    """Makes connections whose requests have limits."""

    def buildProtocol(self, addr: Any) -> Any:
        """Return the protocol of a new connection."""
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = Request
        return protocol


class Server(daphne.server.Server):  # type: ignore[misc]
    """Daphne's server, which ends a body that takes more than `body_timeout` seconds.

    It logs requests as all else is logged, and not to a stream of their own.
    """

    def __init__(self, *args: Any, body_timeout: float = MAX_BODY_SECONDS, **more: Any) -> None:
        super().__init__(*args, **{**more, "action_logger": log_action})
        self.body_timeout = body_timeout


def log_action(protocol: str, action: str, details: Mapping[str, Any]) -> None:
    """Log the end of a request, and each change of a socket; of a sign-in link not its token."""
    about = {name: details[key] for name, key in LOGGED.items() if details.get(key) is not None}
    before, link, _ = str(about.get("path", "")).partition(SIGN_IN)
    if link:
        about["path"] = f"{before}{link}…"
    what = about.get("method") or f"{protocol} {action}"
    words = (what, about.get("path"), about.get("status"), "from", about.get("client"))
    logger.info("%s", " ".join(str(each) for each in words if each), extra={"about": about})


class CommandLine(CommandLineInterface):  # type: ignore[misc]
    """Daphne's command line, with the application and the limits of this project."""

    def __init__(self) -> None:
        super().__init__()
        self.parser.set_defaults(http_timeout=MAX_ANSWER_SECONDS)

    def run(self, words: Sequence[str]) -> None:
        """Serve until a signal ends this process."""
        own = ArgumentParser(add_help=False)
        own.add_argument("--body-timeout", type=float, default=MAX_BODY_SECONDS)
        options, rest = own.parse_known_args(words)
        self.server_class = partial(Server, body_timeout=options.body_timeout)
        daphne.server.HTTPFactory = Factory  # the server makes its factory itself
        super().run([*rest, APPLICATION])


if __name__ == "__main__":
    CommandLine().run(sys.argv[1:])
