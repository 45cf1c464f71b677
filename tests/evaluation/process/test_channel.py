"""Frames arrive whole, and a stranger's bytes never raise anything but LinkError."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from evaluation.process import channel
from evaluation.process.channel import (
    MAX_FRAME_BYTES,
    TOKEN_BYTES,
    Channel,
    ChannelClosed,
    ChannelError,
    ChannelTimeout,
)

Ends = tuple[Channel, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    yield Channel(ours), theirs
    ours.close()
    theirs.close()


def test_a_message_arrives_as_it_was_sent(ends: Ends) -> None:
    judge, theirs = ends
    Channel(theirs).send({"do": "run", "count": 3, "text": "µs"})
    assert judge.receive(1) == ({"do": "run", "count": 3, "text": "µs"}, [])


def test_a_frame_in_pieces_is_put_together(ends: Ends) -> None:
    judge, theirs = ends
    frame = struct.pack("<I", 8) + b'{"a": 1}'
    theirs.sendall(frame[:3])
    theirs.sendall(frame[3:7])
    theirs.sendall(frame[7:])
    assert judge.receive(1)[0] == {"a": 1}


def test_a_word_arrives_whole_and_a_message_may_follow_it(ends: Ends) -> None:
    judge, theirs = ends
    peer = Channel(theirs)
    theirs.send(b"half a wo")
    theirs.send(b"rd, and")
    peer.send({"a": 1})
    assert judge.receive_token(1) == b"half a word, and"
    assert judge.receive(1)[0] == {"a": 1}


def test_a_message_or_a_word_is_an_answer_once_it_is_whole(ends: Ends) -> None:
    judge, theirs = ends
    frame = struct.pack("<I", 8) + b'{"a": 1}'
    for sent, words in ((frame, False), (bytes(TOKEN_BYTES), True)):
        assert not judge.has_reply(words)
        theirs.send(sent[:3])
        assert not judge.has_reply(words)
        theirs.send(sent[3:-1])
        assert judge.readable() and not judge.has_reply(words)
        theirs.send(sent[-1:])
        assert judge.has_reply(words)
        judge.receive_token(1) if words else judge.receive(1)
    theirs.close()
    assert judge.has_reply()
    assert judge.has_reply(token=True)


def test_no_word_in_time_and_none_for_who_reads_nothing(ends: Ends) -> None:
    judge, theirs = ends
    theirs.send(b"half")
    with pytest.raises(ChannelTimeout):
        judge.receive_token(0.05)
    with pytest.raises(ChannelError, match="left unread"):  # noqa: PT012 - at some word or other
        for _ in range(1 << 20):
            judge.send_token(bytes(TOKEN_BYTES))
    theirs.close()
    with pytest.raises(ChannelClosed):
        judge.send_token(bytes(TOKEN_BYTES))


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack("<I", MAX_FRAME_BYTES + 1),
        struct.pack("<I", 4) + b"nope",
        struct.pack("<I", 2) + b"[]",
        struct.pack("<I", 4) + b"\xff\xfe\xff\xfe",
        struct.pack("<I", 200_000) + b"[" * 200_000,
    ],
    ids=["too long", "not json", "not an object", "not utf-8", "too deep"],
)
def test_garbage_is_a_breach_of_protocol(ends: Ends, garbage: bytes) -> None:
    judge, theirs = ends
    theirs.sendall(garbage)
    with pytest.raises(ChannelError):
        judge.receive(1)


def test_a_peer_that_is_gone_is_told_apart_from_one_that_is_slow(ends: Ends) -> None:
    judge, theirs = ends
    with pytest.raises(ChannelTimeout):
        judge.receive(0.05)
    theirs.close()
    with pytest.raises(ChannelClosed):
        judge.receive(1)


def test_a_frame_that_trickles_does_not_outlive_the_deadline(ends: Ends) -> None:
    judge, theirs = ends
    theirs.sendall(struct.pack("<I", 100) + b"{")
    started = time.monotonic()
    with pytest.raises(ChannelTimeout):
        judge.receive(0.2)
    assert time.monotonic() - started < 2


def test_descriptors_arrive_only_where_they_are_accepted(ends: Ends) -> None:
    judge, theirs = ends
    before = len(os.listdir("/proc/self/fd"))
    with open(os.devnull) as file:
        Channel(theirs).send({"gift": True}, [file.fileno()])
        assert judge.receive(1) == ({"gift": True}, [])
    assert len(os.listdir("/proc/self/fd")) == before

    contestant = Channel(theirs, accepts_descriptors=True)
    with open(os.devnull) as file:
        judge.send({"memory": True}, [file.fileno()])
        _, (received,) = contestant.receive(1)
    os.fstat(received)
    os.close(received)


def test_who_leaves_everything_unread_is_not_waited_for_for_ever(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "MAX_SEND_SECONDS", 0.05)
    judge, _ = ends
    with pytest.raises(ChannelError, match="left unread") as caught:
        judge.send({"do": "x" * (MAX_FRAME_BYTES - 100)})
    assert not isinstance(caught.value, ChannelClosed)


def test_the_watch_is_called_while_waiting_and_may_end_it(ends: Ends) -> None:
    judge, _ = ends

    def watch() -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        judge.receive(5, watch, interval=0.01)
