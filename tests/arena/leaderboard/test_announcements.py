"""Announcements of records and of changed leaders: kept once, sent once, to a real receiver."""

from __future__ import annotations

from functools import partial

import pytest
from django.utils import timezone

from arena.catalog.models import Agent
from arena.leaderboard import announcements
from arena.leaderboard.models import Announcement
from arena.runs.scoring.standings import touch
from arena.runs.services import quarantine
from tests.arena.factories import hide, judged_run
from tests.arena.webhook import receiver

pytestmark = pytest.mark.django_db


@pytest.fixture
def received(settings):
    """Return the bodies that a chat's webhook gets."""
    with receiver() as (settings.ARENA_NEWS_URL, bodies):
        yield bodies


@pytest.fixture
def judged(task, agent, hardware):
    return partial(judged_run, hardware=hardware, ended_at=timezone.now())


def watch() -> int:
    """Watch, and send in this thread."""
    return announcements.watch(lambda call: call())


def test_watch_sends_a_record_and_the_changed_leaders_once(received, judged):
    judged("first", "relu", 1.5)
    assert [watch(), watch()] == [0, 0], "what stood before is not news"
    run = judged("second", "relu", 2.0)
    touch()
    assert watch() == 2, "a record and new leaders"
    assert watch() == 0
    (body,) = received
    kinds = {each["kind"]: each for each in body["announcements"]}
    assert kinds["record"]["path"] == f"/runs/{run.pk}/"
    assert kinds["record"]["text"].endswith("2.00× by second")
    assert kinds["leaders"]["text"].endswith("1 second 2.00×, 2 first 1.50×")
    assert body["text"].count("\n") == 1


def test_name_of_an_agent_calls_nobody_in_a_chat_and_is_no_link(received, judged):
    judged("first", "relu", 1.5)
    watch()
    run = judged("second", "relu", 2.0)
    title = "<!channel> @here <http://x|gift> a&b (mallory)"
    Agent.objects.filter(pk=run.agent_id).update(title=title)
    touch()
    watch()
    (body,) = received
    assert "&lt;!channel&gt; @\u2060here &lt;http://x|gift&gt; a&amp;b (mallory)" in body["text"]
    assert "<" not in body["text"]
    record = next(each for each in body["announcements"] if each["kind"] == "record")
    assert record["text"].endswith(title)


def test_watch_sends_again_what_the_receiver_did_not_take(received, judged, settings):
    judged("first", "relu", 1.5)
    watch()
    judged("second", "relu", 2.0)
    touch()
    there, settings.ARENA_NEWS_URL = settings.ARENA_NEWS_URL, "http://127.0.0.1:1/"
    watch()
    assert Announcement.objects.filter(sent_at=None).count() == 2
    settings.ARENA_NEWS_URL = there
    assert watch() == 2
    assert len(received) == 1


def test_watch_sends_many_announcements_in_several_requests(received, judged):
    run = judged("first", "relu", 1.5)
    watch()
    rows = range(1, announcements.MAX_SENT + 2)
    Announcement.objects.bulk_create(
        Announcement(kind="record", subject=run.pk, number=number) for number in rows
    )
    assert watch() == announcements.MAX_SENT
    assert watch() == 1


def test_announcement_of_a_run_that_is_hidden_is_not_sent(received, judged):
    judged("first", "relu", 1.5)
    watch()
    hide(judged("second", "relu", 2.0))
    touch()
    watch()
    assert [each for body in received for each in body["announcements"]] == []


def test_record_of_a_run_in_quarantine_is_not_sent_later(received, judged, settings):
    judged("first", "relu", 1.5)
    watch()
    run = judged("second", "relu", 2.0)
    touch()
    there, settings.ARENA_NEWS_URL = settings.ARENA_NEWS_URL, "http://127.0.0.1:1/"
    watch()
    quarantine(run, "It read the clock of the judge.")
    settings.ARENA_NEWS_URL = there
    watch()
    assert "New record" not in "".join(body["text"] for body in received)


def test_feed_of_leaders_has_each_change_without_the_name_of_a_withdrawn_agent(client, judged):
    judged("first", "relu", 1.5)
    watch()
    judged("second", "relu", 2.0)
    touch()
    watch()
    Agent.objects.filter(slug="first").update(
        quarantined_at=timezone.now(), quarantine_reason="A test."
    )
    feed = client.get("/leaders.atom").content.decode()
    assert feed.count("<entry>") == 2
    assert "1 second 2.00×, 2 a withdrawn agent 1.50×" in feed and "first 1.50" not in feed
    assert client.get("/leaders.atom?hardware=none").content.count(b"<entry>") == 0


def test_feed_of_leaders_has_no_name_of_an_agent_whose_runs_were_hidden(client, judged):
    run = judged("first", "relu", 1.5)
    watch()
    Agent.objects.filter(slug="first").update(active=False)
    assert "1 first 1.50×" in client.get("/leaders.atom").content.decode()
    hide(run)
    feed = client.get("/leaders.atom").content.decode()
    assert "1 a withdrawn agent 1.50×" in feed and "first 1.50" not in feed


def test_watch_with_a_new_receiver_sends_it_nothing_of_the_time_before(received, judged, settings):
    judged("first", "relu", 1.5)
    there, settings.ARENA_NEWS_URL = settings.ARENA_NEWS_URL, ""
    watch()
    judged("second", "relu", 2.0)
    touch()
    watch()
    settings.ARENA_NEWS_URL = there
    judged("third", "relu", 3.0)
    touch()
    assert watch() == 2
    assert [each["text"].split()[-1] for each in received[0]["announcements"]] == ["third", "1.50×"]
