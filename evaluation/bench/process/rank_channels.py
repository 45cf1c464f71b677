"""The channels of the ranks of one model, used as one channel.

An exchange ends when every rank has answered, so the judge's clock stops with the last one.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from evaluation.sandbox.channel import POLL_SECONDS, Channel, ChannelTimeout, Message

T = TypeVar("T")
BY_RANK = "by_rank"
"""The key of a message whose value has what is added for each rank."""
MAX_APART_SECONDS = 30.0
"""Limit on the time between the first answer of a rank and the last one."""
MAX_LATE_SECONDS = 0.5
"""Wait for the others once a rank has failed, which may wait for it in a collective."""


class RankTimeout(ChannelTimeout):
    """A rank did not answer, and the others did."""


class RankChannels:
    """One channel to each rank. A rank that has not answered a failed exchange is left out."""

    def __init__(
        self,
        channels: Sequence[Channel],
        max_apart_seconds: float | None = None,
        max_late_seconds: float = MAX_LATE_SECONDS,
    ) -> None:
        """Create it; ranks have MAX_APART_SECONDS by default."""
        self._max_apart_seconds = max_apart_seconds or MAX_APART_SECONDS
        self._max_late_seconds = max_late_seconds
        self._channels = dict(enumerate(channels))
        self._asked: dict[int, Channel] = dict(self._channels)
        self._nonce: object = None
        self._token = b""

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send a message to every rank, which gets its own part of `BY_RANK` and of descriptors.

        Raises: as `Channel.send`.
        """
        self._nonce = message.get("nonce")
        own = message.get(BY_RANK) or [{}] * len(self._channels)
        common = {name: value for name, value in message.items() if name != BY_RANK}
        share = len(descriptors) // len(self._channels)
        for rank, channel in self._asked.items():
            part = descriptors[rank * share : (rank + 1) * share]
            channel.send({**common, **own[rank]}, part)

    def send_token(self, token: bytes) -> None:
        """Send a token to every rank. Raises as `Channel.send_token`."""
        self._token = token
        for channel in self._asked.values():
            channel.send_token(token)

    def receive(
        self, timeout: float, poll: Callable[[], None], spin: float = 0.0
    ) -> tuple[Message, list[int]]:
        """Return the reply of the first rank that failed, or that of rank 0.

        Raises: RankTimeout, and as `Channel.receive`.
        """

        def failed(reply: Message) -> bool:
            return reply.get("echo") != self._nonce or reply.get("reason") is not None

        def read(channel: Channel, seconds: float) -> Message:
            return channel.receive(seconds, poll)[0]

        rank, reply = self._gather(read, failed, timeout, poll, spin)
        if failed(reply):
            reply = {**reply, "message": f"rank {rank}: {reply.get('message', '')}"}
        return reply, []

    def receive_token(self, timeout: float, poll: Callable[[], None], spin: float = 0.0) -> bytes:
        """Return the token of a rank that sent another one, or the token. Raises as `receive`."""

        def read(channel: Channel, seconds: float) -> bytes:
            return channel.receive_token(seconds, poll)

        return self._gather(read, lambda token: token != self._token, timeout, poll, spin)[1]

    def has_reply(self, token: bool = False) -> bool:
        """Return whether every rank has answered, or is gone."""
        return all(channel.has_reply(token) for channel in self._asked.values())

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()

    def _gather(
        self,
        read: Callable[[Channel, float], T],
        failed: Callable[[T], bool],
        timeout: float,
        poll: Callable[[], None],
        spin: float,
    ) -> tuple[int, T]:
        """Return the rank and the answer of one that failed, or of the first, once all answered."""
        found: dict[int, T] = {}
        bad: dict[int, T] = {}
        started = time.monotonic()
        until = started + timeout
        while waiting := {c: r for r, c in self._asked.items() if r not in found}:
            now = time.monotonic()
            if now >= until:
                break
            pause = 0.0 if now < started + spin else min(until - now, POLL_SECONDS)
            ready = select.select([*waiting], [], [], pause)[0]
            if not ready and pause:
                poll()
            for channel in ready:
                answer = found[waiting[channel]] = read(channel, until - now)
                if failed(answer):
                    bad[waiting[channel]] = answer
                limit = self._max_late_seconds if bad else self._max_apart_seconds
                until = min(until, time.monotonic() + limit)
        if bad:
            self._asked = {rank: self._asked[rank] for rank in found}
            return next(iter(bad.items()))
        if waiting:
            late = ", ".join(map(str, waiting.values()))
            if found:
                what = f"within {self._max_apart_seconds:g} s of the others"
            else:
                what = f"within {timeout:g} s"
            raise RankTimeout(f"rank {late}: no answer {what}")
        return min(found), found[min(found)]
