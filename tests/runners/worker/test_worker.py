"""The loop of a worker: polls, database errors, and its end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import dramatiq
import pytest
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from dramatiq.brokers.stub import StubBroker
from dramatiq.worker import Worker as Consumer

from arena.catalog.models import Hardware
from arena.catalog.workers import Worker as Row
from runners.process.supervisor import stopping
from runners.worker import bench, worker
from runners.worker.actors import broker, current
from tests.waiting import PATIENCE_SECONDS, until


def test_poll_with_a_failing_reaper_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def reap() -> int:
        raise OverflowError("Python int too large to convert to SQLite INTEGER")

    worker.poll(reap=reap)
    assert "the reaper failed" in caplog.text


@pytest.fixture
def without_workers() -> Iterator[None]:
    """Let each statement fail that names the table of workers, as one that lacks a column does."""

    def execute(call: Callable[..., Any], sql: str, *given: Any) -> Any:
        if '"catalog_worker"' in sql:
            raise OperationalError("no such column: catalog_worker.drained_by")
        return call(sql, *given)

    with connection.execute_wrapper(execute):
        yield


@pytest.fixture
def one_migration_behind(transactional_db: None) -> Iterator[None]:
    """Let the database lack the last migration of the catalogue, as far as it is recorded."""
    migrations = MigrationRecorder(connection)
    rows = migrations.migration_qs.filter(app="catalog")
    name = rows.order_by("name").values_list("name", flat=True).last()
    migrations.record_unapplied("catalog", name)
    yield
    migrations.record_applied("catalog", name)


def test_poll_of_a_database_that_lacks_a_migration_takes_no_work(
    one_migration_behind: None, without_workers: None, hardware: Hardware
) -> None:
    duty = worker.Duty((hardware.queue,), hardware=hardware)
    assert worker.poll(duty, reap=lambda: 0).startswith("The database lacks 1 migrations")


@pytest.mark.django_db(transaction=True)
def test_poll_with_a_table_of_workers_that_is_unreadable_takes_no_work(
    without_workers: None, hardware: Hardware
) -> None:
    duty = worker.Duty((hardware.queue,), hardware=hardware)
    assert worker.poll(duty, reap=lambda: 0) == worker.UNKNOWN


@pytest.mark.django_db(transaction=True)
def test_database_error_in_a_loop_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with worker.database_errors_logged():
        raise OperationalError("database is locked")
    assert "tried again later: database is locked" in caplog.text
    with pytest.raises(RuntimeError), worker.database_errors_logged():
        raise RuntimeError


def test_serving_with_an_error_stops_current_work() -> None:
    with pytest.raises(RuntimeError), worker.serving():
        raise RuntimeError
    assert stopping.is_set()
    stopping.clear()


@pytest.fixture
def signals() -> Iterator[None]:
    """Restore the handlers of signals, and forget that this process was to stop."""
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)
    stopping.clear()


def work(broker: StubBroker) -> None:
    current.before_process_message(broker, dramatiq.Message("q", "a", (), {}, {}))


def end_work(broker: StubBroker) -> None:
    current.after_process_message(broker, dramatiq.Message("q", "a", (), {}, {}))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("signals_sent", [1, 2])
def test_serve_with_grace_ends_with_its_work_or_at_a_second_signal(
    signals: None, signals_sent: int, caplog: pytest.LogCaptureFixture
) -> None:
    broker, stopped = StubBroker(), []
    work(broker)

    before = signal.getsignal(signal.SIGTERM)

    def ask_to_end() -> None:
        until(lambda: signal.getsignal(signal.SIGTERM) is not before, "serve handles no signal")
        os.kill(os.getpid(), signal.SIGTERM)
        until(lambda: "It ends: it finishes 1 more" in caplog.text, lambda: caplog.text)
        if signals_sent == 1:
            stopped.append(stopping.is_set())
            end_work(broker)
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    begin = threading.Thread(target=ask_to_end)
    begin.start()
    worker.serve(grace=PATIENCE_SECONDS)
    begin.join()
    if signals_sent == 1:
        assert stopped == [False], "current work was stopped"
    else:
        end_work(broker)
    assert current.count == 0


@pytest.mark.django_db(transaction=True)
def test_serve_until_idle_ends_once_no_message_waits_and_none_is_worked_on(
    signals: None, valkey: str
) -> None:
    broker, busy = StubBroker(), []
    work(broker)

    def end_it() -> None:
        until(Row.objects.exists, "no heartbeat")
        busy.append(current.count)
        end_work(broker)

    ends = threading.Thread(target=end_it)
    ends.start()
    worker.serve(worker.Duty(("idle",)), idle_seconds=0.0)
    ends.join()
    assert busy == [1], "it ended while it worked"


@pytest.mark.django_db(transaction=True)
def test_serving_several_duties_leaves_nothing_in_their_broker(
    signals: None, valkey: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = list(broker.middleware)
    with worker.serving(worker.Duty(("one",)), worker.Duty(("two",))) as consumers:
        assert [set(each.consumers) for each in consumers] == [
            {"one", "one.DQ"},
            {"two", "two.DQ"},
        ]
    assert broker.middleware == before
    assert "middleware of the same type" not in caplog.text


def test_hold_takes_nothing_new_until_it_goes_on() -> None:
    broker = StubBroker(middleware=[])
    begun, let_end, done = threading.Event(), threading.Event(), []

    @dramatiq.actor(broker=broker, queue_name="held")
    def act(number: int) -> None:
        begun.set()
        let_end.wait(PATIENCE_SECONDS)
        done.append(number)

    consumer = Consumer(broker, worker_timeout=10, worker_threads=1)
    consumer.queue_prefetch = 1
    consumer.start()
    try:
        act.send(1)
        assert begun.wait(PATIENCE_SECONDS)
        worker.hold([consumer], True)
        for thread in consumer.consumers.values():
            assert thread.paused_event.wait(PATIENCE_SECONDS), "it still takes messages"
        act.send(2)
        let_end.set()
        consumer.join()
        assert done == [1]
    finally:
        consumer.stop()


def test_hold_idle_holds_duties_without_a_device_of_their_own(hardware: Hardware) -> None:
    duties = [worker.Duty((hardware.queue,), 2, hardware, ("a", "b")), worker.Duty(("build",))]
    consumers = [Consumer(StubBroker(middleware=[]), worker_threads=1) for _ in duties]
    benches = [bench.Bench("a", ours=False), bench.Bench("b", ours=False)]
    bench.here[hardware.slug] = benches

    def at_work(problem: str = "") -> list[bool]:
        """Return which consumers have started and are not paused."""
        worker.hold_idle(duties, consumers, problem)
        return [
            bool(each.workers) and not any(one.paused for one in each.consumers.values())
            for each in consumers
        ]

    for each, duty in zip(consumers, duties, strict=True):
        each.broker.declare_queue(*duty.queues)
    try:
        assert at_work("Its disk is full.") == [False, False]
        assert at_work() == [False, True]
        benches[1].ours = True
        assert at_work() == [True, True]
        benches[1].ours = False
        assert at_work() == [False, True]
        assert at_work("Its disk is full.") == [False, False]
    finally:
        bench.here.clear()
        for each in consumers:
            each.stop()
