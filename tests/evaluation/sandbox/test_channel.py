"""Messages and tokens over a channel, and the errors of malformed ones."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

import pytest

from evaluation.sandbox.channel import (
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
    ours, peer_end = socket.socketpair()
    yield Channel(ours), peer_end
    ours.close()
    peer_end.close()


def test_receive_returns_the_message_that_was_sent(ends: Ends) -> None:
    judge, peer_end = ends
    Channel(peer_end).send({"do": "run", "count": 3, "text": "µs"})
    assert judge.receive(1) == ({"do": "run", "count": 3, "text": "µs"}, [])


def test_receive_frame_in_pieces_returns_the_message(ends: Ends) -> None:
    judge, peer_end = ends
    frame = struct.pack("<I", 8) + b'{"a": 1}'
    peer_end.sendall(frame[:3])
    peer_end.sendall(frame[3:7])
    peer_end.sendall(frame[7:])
    assert judge.receive(1)[0] == {"a": 1}


def test_receive_token_in_pieces_leaves_the_next_message(ends: Ends) -> None:
    judge, peer_end = ends
    peer = Channel(peer_end)
    peer_end.send(b"half a wo")
    peer_end.send(b"rd, and")
    peer.send({"a": 1})
    assert judge.receive_token(1) == b"half a word, and"
    assert judge.receive(1)[0] == {"a": 1}


def test_has_reply_is_true_only_for_a_whole_message_or_token(ends: Ends) -> None:
    judge, peer_end = ends
    frame = struct.pack("<I", 8) + b'{"a": 1}'
    for sent, token in ((frame, False), (bytes(TOKEN_BYTES), True)):
        assert not judge.has_reply(token)
        peer_end.send(sent[:3])
        assert not judge.has_reply(token)
        peer_end.send(sent[3:-1])
        assert judge.readable() and not judge.has_reply(token)
        peer_end.send(sent[-1:])
        assert judge.has_reply(token)
        judge.receive_token(1) if token else judge.receive(1)
    peer_end.close()
    assert judge.has_reply()
    assert judge.has_reply(token=True)


def test_tokens_late_or_unread_or_to_a_closed_peer_raise(ends: Ends) -> None:
    judge, peer_end = ends
    peer_end.send(b"half")
    with pytest.raises(ChannelTimeout):
        judge.receive_token(0.05)
    with pytest.raises(ChannelError, match="left unread"):  # noqa: PT012 - after some number of tokens
        for _ in range(1 << 20):
            judge.send_token(bytes(TOKEN_BYTES))
    peer_end.close()
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
def test_receive_malformed_frame_raises_channel_error(ends: Ends, garbage: bytes) -> None:
    judge, peer_end = ends
    peer_end.sendall(garbage)
    with pytest.raises(ChannelError):
        judge.receive(1)


def test_receive_slow_and_closed_peers_raise_different_errors(ends: Ends) -> None:
    judge, peer_end = ends
    with pytest.raises(ChannelTimeout):
        judge.receive(0.05)
    peer_end.close()
    with pytest.raises(ChannelClosed):
        judge.receive(1)


def test_receive_partial_frame_times_out(ends: Ends) -> None:
    judge, peer_end = ends
    peer_end.sendall(struct.pack("<I", 100) + b"{")
    with pytest.raises(ChannelTimeout):
        judge.receive(0.2)


def test_descriptors_where_not_accepted_are_dropped(ends: Ends) -> None:
    judge, peer_end = ends
    before = len(os.listdir("/proc/self/fd"))
    with open(os.devnull) as file:
        Channel(peer_end).send({"gift": True}, [file.fileno()])
        assert judge.receive(1) == ({"gift": True}, [])
    assert len(os.listdir("/proc/self/fd")) == before

    process_end = Channel(peer_end, accepts_descriptors=True)
    with open(os.devnull) as file:
        judge.send({"memory": True}, [file.fileno()])
        _, (received,) = process_end.receive(1)
    os.fstat(received)
    os.close(received)


def test_send_to_a_peer_that_reads_nothing_raises(ends: Ends) -> None:
    judge, _ = ends
    judge.max_send_seconds = 0.05
    with pytest.raises(ChannelError, match="left unread") as caught:
        judge.send({"do": "x" * (MAX_FRAME_BYTES - 100)})
    assert not isinstance(caught.value, ChannelClosed)


def test_receive_poll_that_raises_ends_the_wait(ends: Ends) -> None:
    judge, _ = ends

    def poll() -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        judge.receive(5, poll)
