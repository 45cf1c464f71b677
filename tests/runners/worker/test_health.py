"""Health of a machine: a worker with a wrong clock or a full disk takes no work, and says why."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db.models.functions import Now

from arena.catalog import devices, fleet
from arena.catalog import services as catalog
from arena.catalog.models import CatalogSync, Device, Hardware, Worker
from arena.runs import services
from arena.runs.models import Run
from evaluation import JUDGE_VERSION
from runners.worker import bench, device_locks, draining, health, worker
from runners.worker.health import MAX_BROKEN, MIN_FREE_BYTES, Health
from tests.arena.factories import LEASE, ask_for_verdict

BASE_DIR = Path(worker.__file__).resolve().parents[2]
NOW = datetime(2026, 11, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "problem"),
    [
        (35, "Its clock is 35 s ahead of the database's: synchronise it, by NTP."),
        (-40, "Its clock is 40 s behind the database's: synchronise it, by NTP."),
        (1, ""),
    ],
)
def test_clock_problem_with_an_offset_names_it(seconds: int, problem: str) -> None:
    machine = NOW + timedelta(seconds=seconds)
    assert health.clock_problem(health.clock_offset(lambda: NOW, lambda: machine)) == problem


def test_clock_problem_with_a_slow_database_says_nothing() -> None:
    times = iter([NOW + timedelta(seconds=30), NOW + timedelta(seconds=40)])
    assert health.clock_offset(lambda: NOW, lambda: next(times)) is None
    assert health.clock_problem(None) == ""


@pytest.mark.parametrize(("free", "full"), [(MIN_FREE_BYTES - 1, True), (MIN_FREE_BYTES, False)])
def test_disk_problem_with_little_space_names_folder_and_space(
    free: int, full: bool, tmp_path: Path
) -> None:
    found = health.disk_problem(tmp_path, lambda folder: free)
    assert bool(found) == full
    if full:
        assert f"255 MiB are free in {tmp_path}" in found


def test_health_with_evaluations_that_break_in_a_row_says_how() -> None:
    found = Health()
    for number in range(MAX_BROKEN):
        assert found.breaks == ""
        found.broke(1, "the same one again counts once")
        found.broke(number, f"no space left {number}")
    assert found.breaks.endswith("the last one so: no space left 2")
    found.judged()
    assert found.breaks == ""


@pytest.mark.django_db(transaction=True)
def test_poll_with_a_problem_shows_it_and_offers_no_queue() -> None:
    duty = worker.Duty(("build",))
    assert worker.poll(duty, reap=lambda: 0, problem="Its disk is full.") == "Its disk is full."
    shown = Worker.objects.get()
    assert shown.live and shown.problem == "Its disk is full."
    assert Worker.objects.queues() == set()
    assert worker.poll(duty, reap=lambda: 0) == ""
    assert Worker.objects.queues() == {"build"}


@pytest.mark.django_db(transaction=True)
def test_poll_after_breaks_takes_no_work_where_another_machine_does() -> None:
    duty = worker.Duty(("build",))
    for number in range(MAX_BROKEN):
        health.here.broke(number, "no space left")
    try:
        assert worker.poll(duty, reap=lambda: 0) == "", "there is no other machine"
        catalog.heartbeat_worker("other/build", queues=["build"], pid=1)
        assert "no space left" in worker.poll(duty, reap=lambda: 0)
    finally:
        health.here.judged()


@pytest.mark.django_db(transaction=True)
def test_poll_with_another_judge_than_the_catalogues_takes_no_work() -> None:
    duty = worker.Duty(("build",))
    CatalogSync.objects.create(checkout="a", machine="a", judge_version="999")
    assert "of version 999: update the older checkout" in worker.poll(duty, reap=lambda: 0)
    assert Worker.objects.queues() == set()


@pytest.mark.django_db(transaction=True)
def test_poll_states_commit_judge_schema_clock_and_disk() -> None:
    worker.poll(worker.Duty(("build",)), reap=lambda: 0)
    shown = Worker.objects.get()
    assert shown.judge_version == JUDGE_VERSION
    assert len(shown.commit) == 40
    ours = {file.stem for file in BASE_DIR.glob("arena/*/migrations/0*.py")}
    assert shown.migrations > len(ours), "Django has some of its own"
    assert abs(shown.clock_offset) < 2
    assert shown.free_bytes > MIN_FREE_BYTES
    assert shown.last_error == health.here.last_error


@pytest.mark.django_db(transaction=True)
def test_drained_machine_takes_nothing_new_until_it_is_resumed() -> None:
    duty, machine = worker.Duty(("build",)), socket.gethostname()
    worker.poll(duty, reap=lambda: 0)
    assert fleet.drain(machine) == 1
    assert worker.poll(duty, reap=lambda: 0) == (
        "It is drained by the command line: it takes nothing new."
    )
    catalog.remove_worker(duty.names[0], os.getpid())
    assert Worker.objects.get().drained_by, "it would take work after a restart"
    assert fleet.resume(machine) == 1
    assert worker.poll(duty, reap=lambda: 0) == ""
    catalog.remove_worker(duty.names[0], os.getpid())
    assert not Worker.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_drain_waits_for_what_the_machine_holds(
    start: Callable[..., Run], capsys: pytest.CaptureFixture[str]
) -> None:
    duty = worker.Duty(("build",))
    worker.poll(duty, reap=lambda: 0)
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run)
    lease = services.new_lease()

    def claim() -> None:
        assert services.claim_evaluation(evaluation.pk, "queued", "building", lease)

    def finish() -> None:
        assert draining.held_here() == 1
        assert services.finish_build(evaluation.pk, lease)

    def heartbeat() -> None:
        assert worker.poll(duty, reap=lambda: 0)

    steps = [claim, heartbeat, heartbeat, finish]  # it claims before it reads that it is drained
    left = iter(steps)
    assert draining.drain(lambda seconds: next(left)()) == 0
    assert next(left, None) is None
    assert capsys.readouterr().out.splitlines()[-1].endswith("is drained")


@pytest.mark.django_db
def test_drain_of_a_machine_without_workers_fails_with_a_message() -> None:
    assert draining.drain() == 1


@pytest.mark.django_db
def test_device_that_was_given_back_is_forgotten_after_a_month(hardware: Hardware) -> None:
    for key in ("gone", "taken-out", "young"):
        devices.hold(key, hardware, "box/hw", 1, "token")
        devices.give_back(key, "token")
    Device.objects.exclude(key="young").update(held_at=Now() - timedelta(days=31))
    Device.objects.filter(key="taken-out").update(excluded="slow")
    fleet.forget_silent()
    assert set(Device.objects.values_list("key", flat=True)) == {"taken-out", "young"}


@pytest.mark.django_db
def test_forget_silent_keeps_drained_workers() -> None:
    for name, by in (("gone/build", ""), ("drained/build", "bob"), ("here/build", "")):
        Worker.objects.create(name=name, queues=["build"], pid=1, drained_by=by)
    Worker.objects.exclude(name="here/build").update(last_seen_at=Now() - timedelta(days=2))
    assert fleet.forget_silent() == 1
    assert set(Worker.objects.values_list("name", flat=True)) == {"drained/build", "here/build"}


@pytest.fixture
def device(tmp_path: Path) -> Iterator[str]:
    """Return the name of a device that this test alone knows, and give it back afterwards."""
    yield f"GPU-{tmp_path}"
    device_locks.here.give_back()


@pytest.mark.django_db(transaction=True)
def test_second_worker_of_a_device_takes_no_work_until_the_first_is_gone(
    device: str, hardware: Hardware
) -> None:
    other = f"another-container/{hardware.queue}/GPU"
    devices.hold(device, hardware, other, 1, "the token of another file")
    duty = worker.Duty((hardware.queue,), 1, hardware, (device,))
    problem = f"{other} (process 1) measures on this device: one at a time does."
    assert worker.poll(duty, reap=lambda: 0) == problem
    assert Worker.objects.get(name=duty.names[0]).problem == problem
    Device.objects.update(held_at=Now() - timedelta(seconds=31))
    assert worker.poll(duty, reap=lambda: 0) == ""
    assert Device.objects.get().pid == os.getpid()
    assert worker.poll(duty, reap=lambda: 0) == ""


@pytest.mark.django_db(transaction=True)
def test_second_worker_of_one_name_leaves_the_row_to_the_first(
    device: str, hardware: Hardware
) -> None:
    duty = worker.Duty((hardware.queue,), 1, hardware, (device,))
    (name,) = duty.names
    Worker.objects.create(name=name, queues=[hardware.queue], pid=1, hardware=hardware)
    devices.hold(device, hardware, name, 1, "the token of another file")
    assert worker.poll(duty, reap=lambda: 0).startswith(f"{name} (process 1) measures")
    assert [each.pid for each in Worker.objects.all()] == [1]


@pytest.mark.django_db(transaction=True)
def test_bench_is_taken_once_its_device_is_held(device: str, hardware: Hardware) -> None:
    mine = bench.Bench(device, ours=False)
    bench.here[hardware.slug] = [mine]
    duty = worker.Duty((hardware.queue,), 1, hardware, (device,))
    try:
        devices.hold(device, hardware, "another/hw", 1, "the token of another file")
        worker.poll(duty, reap=lambda: 0)
        assert not mine.ours
        Device.objects.update(held_at=None)
        worker.poll(duty, reap=lambda: 0)
        assert mine.ours
    finally:
        bench.here.clear()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_excluded", [True, False])
def test_one_device_held_elsewhere_or_taken_out_leaves_the_other_at_work(
    is_excluded: bool, device: str, hardware: Hardware
) -> None:
    lost, kept = bench.Bench(f"lost-{device}", ours=False), bench.Bench(f"kept-{device}")
    bench.here[hardware.slug] = [lost, kept]
    duty = worker.Duty((hardware.queue,), 2, hardware, (lost.lock, kept.lock))
    if is_excluded:
        Device.objects.create(key=lost.lock, hardware=hardware, excluded="It is taken out: slow.")
    else:
        devices.hold(lost.lock, hardware, "another/hw", 1, "the token of another file")
    try:
        assert worker.poll(duty, reap=lambda: 0) == ""
        assert [each.ours for each in (lost, kept)] == [False, True]
        reasons = dict(Worker.objects.values_list("name", "problem"))
        expected = "It is taken out: slow." if is_excluded else "another/hw (process 1) measures"
        assert reasons.pop(duty.names[0]).startswith(expected)
        assert reasons == {duty.names[1]: ""}
        assert Worker.objects.queues() == {hardware.queue}
        Device.objects.update(excluded="", held_at=None)
        assert worker.poll(duty, reap=lambda: 0) == ""
        assert lost.ours and kept.ours
    finally:
        bench.here.clear()
