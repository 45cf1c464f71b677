"""Messages between the judge and a candidate process, over a socket pair.

A frame is a four-byte length and a JSON object of bounded size, with file descriptors beside it.
Tokens of TOKEN_BYTES replace frames where JSON would be too slow. A malformed frame of an untrusted
peer raises ChannelError.
"""

from __future__ import annotations

import array
import fcntl
import json
import select
import socket
import struct
import termios
import time
from collections.abc import Callable, Sequence
from typing import Any

MAX_FRAME_BYTES = 1 << 20
MAX_DESCRIPTORS = 16
MAX_SEND_SECONDS = 5.0
POLL_SECONDS = 0.05
TOKEN_BYTES = 16

Message = dict[str, Any]


class ChannelError(Exception):
    """The peer broke the protocol."""


class ChannelClosed(ChannelError):
    """The peer closed the channel or ended."""


class ChannelTimeout(ChannelError):
    """The peer did not reply in time."""


class Channel:
    """One end of a socket pair, for one thread.

    Only an end that `accepts_descriptors` receives any; the kernel drops all others.
    """

    def __init__(self, end: socket.socket, accepts_descriptors: bool = False) -> None:
        self.socket, self.max_send_seconds = end, MAX_SEND_SECONDS
        self._ancillary = socket.CMSG_SPACE(4 * MAX_DESCRIPTORS) if accepts_descriptors else 0

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send one message.

        Raises: ChannelClosed when the peer is gone; ChannelError when the message is too long, or
        the peer reads nothing until the buffer is full.
        """
        body = json.dumps(message).encode()
        if len(body) > MAX_FRAME_BYTES:
            raise ChannelError(f"a message of {len(body)} bytes, of at most {MAX_FRAME_BYTES}")
        frame = struct.pack("<I", len(body)) + body
        self.socket.settimeout(self.max_send_seconds)
        try:
            if descriptors:
                sent = socket.send_fds(self.socket, [frame], list(descriptors))
                frame = frame[sent:]
            self.socket.sendall(frame)
        except TimeoutError as error:
            raise ChannelError("the message was left unread") from error
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        finally:
            self.socket.settimeout(None)

    def send_token(self, token: bytes) -> None:
        """Send TOKEN_BYTES without waiting. Raises as `send` does."""
        try:
            self.socket.send(token, socket.MSG_DONTWAIT)
        except BlockingIOError as error:
            raise ChannelError("the token was left unread") from error
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def readable(self) -> bool:
        """Return whether a message has begun to arrive, or the peer is gone."""
        return bool(select.select([self.socket], [], [], 0)[0])

    def has_reply(self, token: bool = False) -> bool:
        """Return whether a whole message or token has arrived, or the peer is gone.

        A candidate may send the first bytes early, so they count for nothing.
        """
        if not self.readable():
            return False
        try:
            arrived: int = struct.unpack("i", fcntl.ioctl(self.socket, termios.FIONREAD, bytes(4)))[
                0
            ]
            if not arrived or token:
                return not arrived or arrived >= TOKEN_BYTES
            if arrived < 4:
                return False
            length: int = struct.unpack("<I", self.socket.recv(4, socket.MSG_PEEK))[0]
            return arrived >= 4 + min(length, MAX_FRAME_BYTES)
        except OSError:  # the peer is gone
            return True

    def receive(
        self,
        timeout: float | None = None,
        poll: Callable[[], None] | None = None,
        spin: float = 0.0,
    ) -> tuple[Message, list[int]]:
        """Return the next message and its descriptors.

        For the first `spin` seconds it waits without sleeping: a wake-up takes tens of
        microseconds, and varies. `poll` is called every POLL_SECONDS of waiting.

        Raises: ChannelTimeout after `timeout` seconds, ChannelClosed when the peer is gone,
        ChannelError for anything but a JSON object, and whatever `poll` raises.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        descriptors: list[int] = []
        self._spin(spin)
        length = struct.unpack("<I", self._read(4, descriptors, deadline, poll))[0]
        if length > MAX_FRAME_BYTES:
            raise ChannelError(f"a frame of {length} bytes, of at most {MAX_FRAME_BYTES}")
        body = self._read(length, descriptors, deadline, poll)
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ChannelError("a frame that is not JSON") from error
        if not isinstance(message, dict):
            raise ChannelError("a frame that is not a JSON object")
        return message, descriptors

    def receive_token(
        self,
        timeout: float | None = None,
        poll: Callable[[], None] | None = None,
        spin: float = 0.0,
    ) -> bytes:
        """Return the next TOKEN_BYTES; the arguments are those of `receive`."""
        self._spin(spin)
        deadline = None if timeout is None else time.monotonic() + timeout
        return self._read(TOKEN_BYTES, [], deadline, poll)

    def _spin(self, seconds: float) -> None:
        """Wait for data without sleeping."""
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline and not self.readable():
            pass

    def _read(
        self,
        size: int,
        descriptors: list[int],
        deadline: float | None,
        poll: Callable[[], None] | None,
    ) -> bytes:
        data = b""
        while len(data) < size:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise ChannelTimeout("no reply in time")
            pause = (
                left if poll is None else min(POLL_SECONDS if left is None else left, POLL_SECONDS)
            )
            if pause is not None and not select.select([self.socket], [], [], pause)[0]:
                if poll:
                    poll()
                continue
            try:
                chunk, ancillary, _, _ = self.socket.recvmsg(size - len(data), self._ancillary)
            except OSError as error:
                raise ChannelClosed(str(error)) from error
            if not chunk:
                raise ChannelClosed("the peer closed the channel")
            for level, kind, payload in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    numbers = array.array("i")
                    numbers.frombytes(payload[: len(payload) - len(payload) % 4])
                    descriptors.extend(numbers)
            data += chunk
        return data

    def close(self) -> None:
        self.socket.close()
