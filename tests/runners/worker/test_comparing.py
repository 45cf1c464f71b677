"""Comparison of devices: one that is too far from the median of its model is taken out."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from arena.catalog import devices, fleet
from arena.catalog.models import Device, Hardware, Task, Worker
from runners.worker import bench, comparing, device_locks, worker
from runners.worker.bench import Bench
from runners.worker.comparing import Comparisons

pytestmark = pytest.mark.django_db
HERE = f"{socket.gethostname()}/hw.test-cpu/GPU-here"
KEY = f"GPU-here-{os.getpid()}"


@pytest.fixture
def fleet_of_three(hardware: Hardware, task: Task, settings: Any) -> Device:
    """Return the device here, which is one of three that are held; the others have a result."""
    settings.COMPARED_TASK = task.slug
    held = {"hardware": hardware, "held_at": Now(), "token": "of its file"}
    device = Device.objects.create(key=KEY, worker=HERE, **held)
    for number, latency in enumerate((10.0, 10.1)):
        other = Device.objects.create(key=f"GPU-{number}", worker=f"m{number}/hw", **held)
        comparing.compare(other, task.version, Bench(), lambda *_, found=latency: found)
    return device


def compare(device: Device, *latencies: float | None) -> Device:
    """Return a device after a comparison that measures these latencies, and no more."""
    left = iter(latencies)
    version = comparing.common_version("cpu")
    assert version is not None
    comparing.compare(device, version, Bench(), lambda *_: next(left))
    assert next(left, "none") == "none"
    device.refresh_from_db()
    return device


def test_device_too_far_from_the_median_twice_is_taken_out(fleet_of_three: Device) -> None:
    device = compare(fleet_of_three, 11.0, 10.8)
    assert device.excluded == (
        "It is taken out: on relu/cpp-to-cpp it is 6.9% slower than the median of 3 devices of its"
        " model."
    )
    assert not Device.objects.exclude(pk=device.pk).exclude(excluded="").exists()


@pytest.mark.parametrize("latencies", [(10.3,), (11.0, 10.2), (None,), (11.0, None)])
def test_device_near_the_median_or_without_a_result_stays(
    fleet_of_three: Device, latencies: tuple[float | None, ...]
) -> None:
    assert compare(fleet_of_three, *latencies).excluded == ""


def test_of_two_devices_that_differ_none_is_taken_out(fleet_of_three: Device) -> None:
    Device.objects.get(key="GPU-1").delete()
    device = compare(fleet_of_three, 12.0)
    assert (device.latency_us, device.excluded) == (12.0, "")


def test_result_of_another_judge_is_not_compared_with(fleet_of_three: Device) -> None:
    Device.objects.exclude(pk=fleet_of_three.pk).update(measure="relu@0 judge 1")
    assert compare(fleet_of_three, 12.0).excluded == ""


def test_comparison_is_due_once_a_day_where_there_are_others(fleet_of_three: Device) -> None:
    started: list[Callable[[], None]] = []

    def advance() -> bool:
        return Comparisons(started.append).advance({KEY: Bench()})

    assert advance()
    assert not advance(), "one is under way"
    Device.objects.update(tried_at=Now() - timedelta(hours=2))
    assert advance(), "the first had no result"
    compare(fleet_of_three, 10.0)
    Device.objects.update(tried_at=Now() - timedelta(hours=2))
    assert not advance(), "it was compared today"
    Device.objects.update(compared_at=Now() - timedelta(hours=25))
    assert advance()
    Device.objects.update(compared_at=None, tried_at=None)
    for other in Device.objects.exclude(pk=fleet_of_three.pk):
        devices.give_back(other.key, other.token)
    assert not advance(), "no other device is held"
    Device.objects.exclude(pk=fleet_of_three.pk).delete()
    assert not advance(), "there is no other device"
    assert len(started) == 3


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_ours", [True, False])
def test_comparison_is_started_on_devices_that_this_process_measures_on(
    is_ours: bool, fleet_of_three: Device, hardware: Hardware
) -> None:
    started: list[Callable[[], None]] = []
    bench.here[hardware.slug] = [Bench(KEY, ours=is_ours)]
    try:
        duty = worker.Duty((hardware.queue,), 1, hardware, (KEY,))
        worker.compare_devices([duty], Comparisons(started.append))
    finally:
        bench.here.clear()
    assert bool(started) == is_ours


def test_comparison_without_its_task_is_not_started(fleet_of_three: Device, settings: Any) -> None:
    for slug in ("", "relu/cuda-to-cuda"):
        settings.COMPARED_TASK = slug
        assert not Comparisons(lambda call: call()).advance({KEY: Bench()})


@pytest.mark.django_db(transaction=True)
def test_worker_of_a_device_taken_out_takes_no_work_until_it_is_resumed(
    fleet_of_three: Device, hardware: Hardware
) -> None:
    compare(fleet_of_three, 11.0, 11.0)
    Device.objects.update(held_at=None)
    duty = worker.Duty((hardware.queue,), 1, hardware, (KEY,))
    try:
        assert worker.poll(duty, reap=lambda: 0).startswith("It is taken out: ")
        assert Worker.objects.get().problem.startswith("It is taken out: ")
        assert fleet.resume(socket.gethostname()) == 1
        assert worker.poll(duty, reap=lambda: 0) == ""
    finally:
        device_locks.here.give_back()


def test_latency_is_that_of_the_reference_on_seen_cases_of_a_quiet_verdict() -> None:
    timed = [{"split": "seen", "candidate_us": 2.0}, {"split": "seen", "candidate_us": 8.0}]
    hidden = [{"split": "unseen", "candidate_us": 100.0}]
    gates = [{"measurements": []}, {"measurements": timed}, {"measurements": hidden}]
    report = {"verdict": "passed", "noisy": False, "gates": gates}
    assert comparing.latency_in(report) == pytest.approx(4.0)
    assert comparing.latency_in({**report, "noisy": True}) is None
    assert comparing.latency_in({**report, "verdict": "failed"}) is None
    assert comparing.latency_in({}) is None
