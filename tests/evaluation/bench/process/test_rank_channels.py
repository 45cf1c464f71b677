"""Exchanges with the ranks of one model: all answer, one fails, is late or is gone."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from evaluation.bench.process.rank_channels import BY_RANK, RankChannels, RankTimeout
from evaluation.sandbox.channel import TOKEN_BYTES, Channel, ChannelClosed

RANKS = 3
TOKEN, FAILED = b"t" * TOKEN_BYTES, bytes(TOKEN_BYTES)


class Group:
    """The judge's channels, and the ends of the ranks."""

    def __init__(self) -> None:
        pairs = [socket.socketpair() for _ in range(RANKS)]
        self.judge = RankChannels([Channel(ours) for ours, _ in pairs], 0.05, 0.05)
        self.ranks = [Channel(theirs, accepts_descriptors=True) for _, theirs in pairs]

    def reply(self, rank: int, reason: str | None = None, message: str = "") -> None:
        self.ranks[rank].send({"echo": "n", "reason": reason, "message": message, "from": rank})


@pytest.fixture
def group() -> Iterator[Group]:
    made = Group()
    made.judge.send({"do": "run", "nonce": "n"})
    for rank in made.ranks:
        assert rank.receive(1)[0] == {"do": "run", "nonce": "n"}
    yield made
    made.judge.close()
    for rank in made.ranks:
        rank.close()


def nothing() -> None:
    """Stand in for the check of limits."""


def test_each_rank_gets_its_own_part_of_message_and_descriptors(group: Group) -> None:
    files = [os.memfd_create(str(number)) for number in range(2 * RANKS)]
    own = [{"rank": rank} for rank in range(RANKS)]
    group.judge.send({"do": "bind", "nonce": "m", BY_RANK: own}, files)
    for rank, channel in enumerate(group.ranks):
        message, descriptors = channel.receive(1)
        assert message == {"do": "bind", "nonce": "m", "rank": rank}
        names = [os.readlink(f"/proc/self/fd/{number}") for number in descriptors]
        assert names == [f"/memfd:{2 * rank + n} (deleted)" for n in range(2)]
        for number in descriptors:
            os.close(number)
    for number in files:
        os.close(number)


def test_reply_is_there_when_every_rank_has_answered(group: Group) -> None:
    for rank in (2, 0):
        group.reply(rank)
        assert not group.judge.has_reply()
    group.reply(1)
    assert group.judge.has_reply()
    assert group.judge.receive(1, nothing)[0]["from"] == 0


def test_rank_that_does_not_answer_is_named(group: Group) -> None:
    group.reply(0)
    group.reply(2)
    with pytest.raises(RankTimeout, match=r"rank 1: no answer within 0.05 s of the others"):
        group.judge.receive(60, nothing)


def test_ranks_that_all_wait_are_named_after_the_limit(group: Group) -> None:
    with pytest.raises(RankTimeout, match=r"rank 0, 1, 2: no answer within 0.1 s"):
        group.judge.receive(0.1, nothing)


def test_failure_of_a_rank_is_returned_while_another_waits(group: Group) -> None:
    group.reply(2, "WRONG_SHAPE", "returned nothing")
    reply, _ = group.judge.receive(60, nothing)
    assert (reply["reason"], reply["message"]) == ("WRONG_SHAPE", "rank 2: returned nothing")


def test_end_of_a_rank_counts_before_the_failure_that_it_causes(group: Group) -> None:
    group.reply(0, "CALL_ERROR", "connection closed by peer")
    group.ranks[1].close()
    with pytest.raises(ChannelClosed):
        group.judge.receive(60, nothing)


def test_tokens_of_all_ranks_are_awaited_and_one_that_differs_is_returned(group: Group) -> None:
    group.judge.send_token(TOKEN)
    for rank in group.ranks:
        assert rank.receive_token(1) == TOKEN
        rank.send_token(TOKEN)
    assert group.judge.receive_token(1, nothing) == TOKEN
    group.judge.send_token(TOKEN)
    group.ranks[1].send_token(FAILED)
    assert group.judge.receive_token(60, nothing) == FAILED
    group.judge.send({"do": "explain", "nonce": "n"})
    group.reply(1, "CALL_ERROR", "why")
    assert group.judge.receive(1, nothing)[0]["message"] == "rank 1: why"
