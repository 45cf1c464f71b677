"""Tests of the notices of a pause and of a wait on an open page."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async

from arena.catalog.models import Worker
from arena.runs import services
from arena.runs.live import feeds
from tests.arena.factories import LEASE, ask_for_verdict, measure
from tests.arena.runs.live.test_feeds import frame_where, joined

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey"),
]


async def test_notice_of_a_paused_agent_comes_and_goes_without_an_event(start):
    feeds.hub().pace = feeds.Pace(tick_seconds=0.1, parts_seconds=0.1, idle_parts_seconds=900)
    run, other = await sync_to_async(start)(), await sync_to_async(start)()
    await sync_to_async(services.claim_run)(run.pk, "here:1:a")
    await sync_to_async(services.claim_run)(other.pk, "here:1:b")
    measured = await sync_to_async(ask_for_verdict)(other)
    await sync_to_async(services.claim_evaluation)(measured.pk, "queued", "building", "here:2:c")
    await sync_to_async(services.finish_build)(measured.pk, "here:2:c")
    ws, first = await joined(run)
    assert "paused" not in first["parts"]["notices"]
    await sync_to_async(services.claim_evaluation)(measured.pk, "built", "measuring", "here:3:d")
    begun = await frame_where(ws, lambda frame: "notices" in frame["parts"])
    assert "Its agent is paused while a kernel of another run" in begun["parts"]["notices"]
    await sync_to_async(services.break_evaluation)(measured.pk, "here:3:d", "A stop.", True)
    ended = await frame_where(ws, lambda frame: "notices" in frame["parts"])
    assert "paused" not in ended["parts"]["notices"]
    await ws.disconnect()


async def test_notice_of_a_wait_for_the_device_comes_and_goes_without_an_event(start):
    feeds.hub().pace = feeds.Pace(tick_seconds=0.1, parts_seconds=0.1, idle_parts_seconds=900)
    run, other = await sync_to_async(start)(), await sync_to_async(start)()
    queues = ["agents", "build", run.hardware.queue]
    await Worker.objects.acreate(name="worker", queues=queues, pid=1)
    for each in (run, other):
        await sync_to_async(services.claim_run)(each.pk, LEASE)
    await sync_to_async(measure)(await sync_to_async(ask_for_verdict)(other))
    built = await sync_to_async(ask_for_verdict)(run)
    await sync_to_async(services.claim_evaluation)(built.pk, "queued", "building", LEASE)
    ws, first = await joined(run)
    assert "Waiting" not in first["parts"]["notices"]
    await sync_to_async(services.finish_build)(built.pk, LEASE)
    begun = await frame_where(ws, lambda frame: "notices" in frame["parts"])
    assert "Waiting for Test CPU: 1 ahead." in begun["parts"]["notices"]
    await sync_to_async(services.claim_evaluation)(built.pk, "built", "measuring", LEASE)
    ended = await frame_where(ws, lambda frame: "notices" in frame["parts"])
    assert "Waiting" not in ended["parts"]["notices"]
    await ws.disconnect()
