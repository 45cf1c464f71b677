"""The fleet page: machines as they stated themselves, and the button that drains one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse

from arena.audit.models import AuditEntry
from arena.catalog import devices, fleet
from arena.catalog import services as catalog
from arena.catalog.models import Device, Worker
from arena.catalog.workers import MachineState
from tests.reader import Reader

pytestmark = pytest.mark.django_db
STATE = MachineState(
    commit="c0ffee" + "0" * 34,
    judge_version="17",
    migrations=80,
    clock_offset=0.25,
    free_bytes=3 << 30,
    last_error="No space left on device",
)


@pytest.fixture
def staff(bob) -> Reader:
    client = Reader()
    client.force_login(bob)
    return client


@pytest.fixture
def gpu_box(hardware) -> Worker:
    name = f"gpu-1/{hardware.queue}"
    catalog.heartbeat_worker(name, queues=[hardware.queue], pid=1, hardware=hardware, state=STATE)
    catalog.heartbeat_worker("gpu-1/build", queues=["build"], pid=2, problem="Its disk is full.")
    return Worker.objects.get(name=name)


def test_fleet_page_shows_what_a_machine_states(staff, gpu_box):
    before = gpu_box.last_seen_at - timedelta(seconds=9)
    Worker.objects.filter(name="gpu-1/build").update(last_seen_at=before)
    page = staff.get(reverse("fleet")).content.decode()
    for text in ("gpu-1", "c0ffee00", "judge 17, 80 migrations", "0.250 s", "3.0", "No space left"):
        assert text in page, text
    assert "Its disk is full." in page and "Test CPU" in page
    assert page.count("<form") - page.count('action="/logout/"') == 1, "one button for a machine"


def test_fleet_page_without_workers_names_the_command_that_starts_one(staff):
    assert "python -m runners worker" in staff.get(reverse("fleet")).content.decode()


def test_drain_button_drains_all_workers_of_a_machine_and_resume_undoes_it(staff, gpu_box):
    catalog.heartbeat_worker("gpu-10/build", queues=["build"], pid=3)
    staff.post(reverse("fleet-drain"), {"machine": "gpu-1"})
    drained = Worker.objects.exclude(drained_by="").values_list("name", "drained_by")
    assert dict(drained) == {gpu_box.name: "bob", "gpu-1/build": "bob"}
    assert fleet.drain_problem([gpu_box.name]) == "It is drained by bob: it takes nothing new."
    assert "Resume" in staff.get(reverse("fleet")).content.decode()
    staff.post(reverse("fleet-drain"), {"machine": "gpu-1", "resume": "1"})
    assert not Worker.objects.exclude(drained_by="").exists()
    actions = AuditEntry.objects.order_by("pk").values_list("action", "object_label")
    assert list(actions) == [("machine.drain", "gpu-1"), ("machine.resume", "gpu-1")]


def test_fleet_page_shows_devices_and_resume_puts_back_one_that_was_taken_out(staff, gpu_box):
    for number, latency in enumerate((10.0, 10.0, 11.0)):
        device = devices.hold(f"GPU-{number}", gpu_box.hardware, gpu_box.name, 1, "t")
        apart = devices.store_comparison(device, "relu judge 1", latency)
    devices.exclude(device, apart, "relu/cpp-to-cpp")
    page = staff.get(reverse("fleet")).content.decode()
    assert "0.0% faster than the median of 3 devices" in page
    text = "relu/cpp-to-cpp it is 10.0% slower than the median of 3 devices of its model."
    assert text in page and "Resume" in page
    staff.post(reverse("fleet-drain"), {"machine": "gpu-1", "resume": "1"})
    assert not Device.objects.exclude(excluded="").exists()
    page = staff.get(reverse("fleet")).content.decode()
    assert "10.0% slower than" in page and "taken out: on" not in page
    assert AuditEntry.objects.get().action == "device.include"


def test_fleet_page_names_the_holder_of_a_device_and_of_one_given_back_the_last(staff, gpu_box):
    devices.hold("GPU-1", gpu_box.hardware, gpu_box.name, 7, "t")
    held = staff.get(reverse("fleet")).content.decode()
    assert f'title="Held by {gpu_box.name} (process 7)"' in held
    devices.give_back("GPU-1", "t")
    page = staff.get(reverse("fleet")).content.decode()
    assert f'title="Last held by {gpu_box.name}"' in page and "process None" not in page


def test_drain_of_an_unknown_machine_is_refused(staff, gpu_box):
    answer = staff.post(reverse("fleet-drain"), {"machine": "gpu"}, follow=True)
    assert "No worker of this machine is known." in answer.content.decode()
    assert not Worker.objects.exclude(drained_by="").exists()
