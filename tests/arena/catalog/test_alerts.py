"""Alerts: one for each change of a worker, to a real receiver."""

from __future__ import annotations

import socket
import threading
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from arena.catalog import alerts
from arena.catalog.models import Worker
from tests.arena.webhook import receiver

pytestmark = pytest.mark.django_db


@pytest.fixture
def received(settings):
    """Return the bodies that a chat's webhook gets."""
    with receiver() as (settings.ARENA_ALERT_URL, bodies):
        yield bodies


def watch() -> int:
    """Watch, and send in this thread."""
    return alerts.watch(lambda call: call())


def test_watch_sends_one_alert_for_each_change(received):
    worker = Worker.objects.create(name="gpu-1/build", queues=["build"], pid=1)
    rows = Worker.objects.filter(pk=worker.pk)
    assert watch() == 0
    rows.update(problem="Its disk is full.")
    assert [watch(), watch()] == [1, 0]
    rows.update(problem="Its clock is 3 s ahead.")
    assert watch() == 0, "it takes no work as before"
    rows.update(problem="", last_seen_at=Now() - timedelta(minutes=1))
    assert watch() == 0
    rows.update(last_seen_at=Now())
    assert watch() == 1
    texts = [body["text"] for body in received]
    assert texts == [
        "gpu-1/build takes no work: Its disk is full.",
        "gpu-1/build takes work again.",
    ]
    assert received[0]["workers"] == ["gpu-1/build"]


def test_watch_of_a_silent_and_a_drained_worker_alerts_for_the_silent_one(received):
    for name, by in (("gpu-1/build", ""), ("gpu-2/build", "bob")):
        Worker.objects.create(name=name, queues=["build"], pid=1, drained_by=by)
    Worker.objects.update(last_seen_at=Now() - timedelta(minutes=1))
    assert watch() == 1
    assert received[0]["text"] == "gpu-1/build takes no work: It is silent."


def test_watch_sends_changes_of_several_workers_in_one_request(received):
    for name in ("gpu-1/build", "gpu-2/build"):
        Worker.objects.create(name=name, queues=["build"], pid=1, problem="Its disk is full.")
    assert watch() == 2
    assert received == [
        {
            "text": "gpu-1/build takes no work: Its disk is full.\n"
            "gpu-2/build takes no work: Its disk is full.",
            "workers": ["gpu-1/build", "gpu-2/build"],
        }
    ]


def test_watch_with_an_unreachable_receiver_is_logged_and_tried_again(received, settings, caplog):
    there, settings.ARENA_ALERT_URL = settings.ARENA_ALERT_URL, "http://127.0.0.1:1/"
    Worker.objects.create(name="gpu-1/build", queues=["build"], pid=1, problem="Its disk is full.")
    assert watch() == 1
    assert "no alert was sent" in caplog.text and "gpu-1/build" in caplog.text
    settings.ARENA_ALERT_URL = there
    assert [watch(), watch(), len(received)] == [1, 0, 1]


@pytest.mark.django_db(transaction=True)
def test_watch_waits_for_no_receiver(settings):
    with socket.create_server(("127.0.0.1", 0)) as receiver:  # its backlog takes the connection
        settings.ARENA_ALERT_URL = f"http://127.0.0.1:{receiver.getsockname()[1]}/"
        Worker.objects.create(name="gpu-1/build", queues=["build"], pid=1, problem="Full.")
        assert alerts.watch() == 1
        (thread,) = (each for each in threading.enumerate() if each.name == "alerts")
        assert thread.is_alive() and Worker.objects.get().alerted
        receiver.accept()[0].close()  # it hangs up
    thread.join()
    assert not Worker.objects.get().alerted, "it is sent again"
