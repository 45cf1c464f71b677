"""Tests of messages to actors, with a real queue."""

from __future__ import annotations

import threading

import dramatiq
import pytest
from django.db import transaction
from dramatiq.brokers.redis import RedisBroker
from dramatiq.worker import Worker

from arena import queue
from tests.arena.factories import messages_in
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture
def received(valkey):
    """Return a function that waits for the messages a real worker gets from `test-queue`."""
    broker = RedisBroker(url=valkey)
    messages: list[tuple] = []
    arrived = threading.Event()

    @dramatiq.actor(broker=broker, queue_name="test-queue", actor_name="listen")
    def listen(*args):
        messages.append(args)
        arrived.set()

    worker = Worker(broker, worker_timeout=100, worker_threads=1)
    worker.start()

    def wait() -> list[tuple]:
        assert arrived.wait(PATIENCE_SECONDS), "no message"
        return messages

    yield wait
    worker.stop()
    broker.close()


@pytest.mark.django_db(transaction=True)
def test_enqueue_reaches_the_actor_of_a_real_worker(received):
    queue.enqueue("listen", "test-queue", "run-1", 2)
    assert received() == [("run-1", 2)]


@pytest.mark.django_db(transaction=True)
def test_enqueue_in_a_rolled_back_transaction_sends_nothing(valkey):
    with transaction.atomic():
        queue.enqueue("listen", "rollback-queue", 1)
        transaction.set_rollback(True)
    assert messages_in("rollback-queue") == []
    queue.enqueue("listen", "rollback-queue", 2)
    assert messages_in("rollback-queue") == [("listen", (2,))]
