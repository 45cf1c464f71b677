"""Framed messages between judge and contestant: JSON of bounded size, with file descriptors beside
it; and words, of WORD_BYTES, where JSON would take too long.

A frame is a four-byte length and JSON text. The judge reads what a contestant sends as a stranger's
words: a frame that is too long, not JSON or not an object is a breach of protocol, never an
exception of ours.
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

MAX_FRAME = 1 << 20
MAX_DESCRIPTORS = 16
SEND_SECONDS = 5.0
WORD_BYTES = 16

Message = dict[str, Any]


class ChannelError(Exception):
    """The peer broke the protocol."""


class ChannelClosed(ChannelError):
    """The peer is gone."""


class ChannelTimeout(ChannelError):
    """The peer did not answer in time."""


class Channel:
    """One end of a socket pair. Not thread safe; one request is answered before the next is sent.

    Only an end that `accepts_descriptors` receives any: what a contestant attaches is dropped by
    the kernel.
    """

    def __init__(self, end: socket.socket, accepts_descriptors: bool = False) -> None:
        self.socket = end
        self._ancillary = socket.CMSG_SPACE(4 * MAX_DESCRIPTORS) if accepts_descriptors else 0

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send one message. Raises LinkClosed when the peer is gone, LinkError when `message` is
        too long, or the peer leaves so much unread that there is no room for it.
        """
        body = json.dumps(message).encode()
        if len(body) > MAX_FRAME:
            raise ChannelError(f"a message of {len(body)} bytes, of at most {MAX_FRAME}")
        frame = struct.pack("<I", len(body)) + body
        self.socket.settimeout(SEND_SECONDS)
        try:
            if descriptors:
                sent = socket.send_fds(self.socket, [frame], list(descriptors))
                frame = frame[sent:]
            self.socket.sendall(frame)
        except TimeoutError as error:
            raise ChannelError("what it was told is left unread") from error
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        finally:
            self.socket.settimeout(None)

    def send_word(self, word: bytes) -> None:
        """Send WORD_BYTES. Raises LinkClosed when the peer is gone, LinkError when it leaves so
        much unread that there is no room for them.
        """
        try:
            self.socket.send(word, socket.MSG_DONTWAIT)
        except BlockingIOError as error:
            raise ChannelError("what it was told is left unread") from error
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def pending(self) -> bool:
        """Whether a message has begun to arrive, or the peer is gone."""
        return bool(select.select([self.socket], [], [], 0)[0])

    def answered(self, words: bool = False) -> bool:
        """Whether a whole message has arrived, or a whole word, or the peer is gone: its first byte
        says nothing, and may be sent early.
        """
        if not self.pending():
            return False
        try:
            told = fcntl.ioctl(self.socket, termios.FIONREAD, bytes(4))
            arrived: int = struct.unpack("i", told)[0]
            if not arrived or words:
                return not arrived or arrived >= WORD_BYTES
            if arrived < 4:
                return False
            length: int = struct.unpack("<I", self.socket.recv(4, socket.MSG_PEEK))[0]
            return arrived >= 4 + min(length, MAX_FRAME)
        except OSError:  # the peer is gone
            return True

    def receive(
        self,
        timeout: float | None = None,
        watch: Callable[[], None] | None = None,
        interval: float = 0.05,
        spin: float = 0.0,
    ) -> tuple[Message, list[int]]:
        """The next message and the descriptors that came with it.

        For the first `spin` seconds it is waited for without sleeping: to be woken takes tens of
        microseconds, not always as many. `watch` is called every `interval` seconds while nothing
        comes, and may raise. Raises LinkTimeout after `timeout` seconds, LinkClosed at the end,
        LinkError for anything but a JSON object.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        descriptors: list[int] = []
        self._spin(spin)
        length = struct.unpack("<I", self._read(4, descriptors, deadline, watch, interval))[0]
        if length > MAX_FRAME:
            raise ChannelError(f"a frame of {length} bytes, of at most {MAX_FRAME}")
        body = self._read(length, descriptors, deadline, watch, interval)
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ChannelError("a frame that is not JSON") from error
        if not isinstance(message, dict):
            raise ChannelError("a frame that is not a JSON object")
        return message, descriptors

    def receive_word(
        self,
        timeout: float | None = None,
        watch: Callable[[], None] | None = None,
        interval: float = 0.05,
        spin: float = 0.0,
    ) -> bytes:
        """The next WORD_BYTES, waited for like a message."""
        self._spin(spin)
        deadline = None if timeout is None else time.monotonic() + timeout
        return self._read(WORD_BYTES, [], deadline, watch, interval)

    def _spin(self, seconds: float) -> None:
        """Wait without sleep for something to arrive."""
        ends = time.perf_counter() + seconds
        while time.perf_counter() < ends and not self.pending():
            pass

    def _read(
        self,
        size: int,
        descriptors: list[int],
        deadline: float | None,
        watch: Callable[[], None] | None,
        interval: float,
    ) -> bytes:
        data = b""
        while len(data) < size:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise ChannelTimeout("no answer in time")
            pause = left if watch is None else interval if left is None else min(left, interval)
            if pause is not None and not select.select([self.socket], [], [], pause)[0]:
                if watch:
                    watch()
                continue
            try:
                chunk, ancillary, _, _ = self.socket.recvmsg(size - len(data), self._ancillary)
            except OSError as error:
                raise ChannelClosed(str(error)) from error
            if not chunk:
                raise ChannelClosed("the peer closed the link")
            for level, kind, payload in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    numbers = array.array("i")
                    numbers.frombytes(payload[: len(payload) - len(payload) % 4])
                    descriptors.extend(numbers)
            data += chunk
        return data

    def close(self) -> None:
        self.socket.close()
