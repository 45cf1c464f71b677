"""Tests of sockets whose user loses what allowed them."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.contrib.sessions.models import Session
from django.utils import timezone

from arena.accounts.models import User
from arena.runs.live import feeds
from tests.arena.runs.live.test_feeds import joined, log, seqs_until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey"),
]


def log_out(user: User) -> None:
    Session.objects.all().delete()


def deactivate(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def demote(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_staff=False)


def change_password(user: User) -> None:
    user.set_password("another-1")
    user.save()


def expire(user: User) -> None:
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))


@pytest.mark.parametrize(
    ("who", "change"),
    [
        *(("alice", change) for change in (log_out, deactivate, change_password, expire)),
        *(("bob", change) for change in (log_out, deactivate, change_password, expire, demote)),
    ],
)
async def test_socket_ends_with_what_allowed_it(start, alice, bob, who, change):
    feeds.hub().pace = feeds.Pace(access_seconds=0)
    user = {"alice": alice, "bob": bob}[who]
    run = await sync_to_async(start)(owner=alice, visibility="owner")
    ws, _ = await joined(run, user)
    last = await sync_to_async(log)(run, "still allowed")
    assert await seqs_until(ws, last) == [last]
    await sync_to_async(change)(user)
    while (sent := await ws.receive_output())["type"] == "websocket.send":
        assert not json.loads(sent["text"])["html"]
    assert (sent["type"], sent["code"]) == ("websocket.close", feeds.ACCESS_ENDED)


async def test_socket_of_one_that_may_no_longer_leaves_those_of_others(start, alice, bob, charlie):
    feeds.hub().pace = feeds.Pace(access_seconds=0)
    await sync_to_async(User.objects.filter(pk=charlie.pk).update)(is_staff=True)
    charlie.is_staff = True
    run = await sync_to_async(start)(owner=alice, visibility="owner")
    first, _ = await joined(run, charlie)  # whose user stands for those of the feed
    second, _ = await joined(run, bob)
    await sync_to_async(demote)(charlie)
    while (sent := await first.receive_output())["type"] != "websocket.close":
        assert not json.loads(sent["text"])["html"]
    last = await sync_to_async(log)(run, "for bob")
    assert await seqs_until(second, last) == [last]
    await second.disconnect()


async def test_access_is_checked_at_least_each_minute():
    assert feeds.Pace.access_seconds <= 60
