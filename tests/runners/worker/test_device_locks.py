"""Locks of devices: one process measures on each, on a machine and among containers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models.functions import Now

from arena.catalog import devices
from arena.catalog.models import Device, Hardware
from runners.worker import device_locks
from runners.worker.bench import Bench, taken
from runners.worker.device_locks import DeviceLock

pytestmark = pytest.mark.django_db
Locks = tuple[DeviceLock, DeviceLock]
NOBODY = 65534


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[Locks]:
    """Return the locks of two processes for one device, which this test alone knows."""
    found = tuple(DeviceLock(f"GPU-{tmp_path}", f"{name}/hw.test-cpu") for name in ("m", "n"))
    yield found
    for each in found:
        each.close()


def test_second_process_of_a_device_is_told_who_holds_it(locks: Locks, hardware: Hardware) -> None:
    first, second = locks
    assert first.hold(hardware) == ("", "")
    assert second.hold(hardware) == (f"m/hw.test-cpu (process {os.getpid()})", "")
    assert first.hold(hardware) == ("", ""), "it renews its hold"
    assert Device.objects.get().worker == "m/hw.test-cpu"


def test_device_that_is_given_back_is_free_at_once(locks: Locks, hardware: Hardware) -> None:
    first, second = locks
    first.hold(hardware)
    first.give_back()
    assert Device.objects.get().token == ""
    assert second.hold(hardware) == ("", "")


def test_device_of_a_killed_process_is_free_at_once(locks: Locks, hardware: Hardware) -> None:
    first, second = locks
    first.hold(hardware)
    first.close()  # as the kernel does; the row is as it was
    assert Device.objects.get().held_at is not None
    assert second.hold(hardware) == ("", "")
    assert Device.objects.get().worker == "n/hw.test-cpu"


def test_process_of_another_container_holds_a_device_while_its_heartbeat_is_recent(
    locks: Locks, hardware: Hardware
) -> None:
    lock = locks[0]
    devices.hold(lock.key, hardware, "container/hw.test-cpu", 7, "the token of its own file")
    assert lock.hold(hardware) == ("container/hw.test-cpu (process 7)", "")
    Device.objects.update(held_at=Now() - timedelta(seconds=31))
    assert lock.hold(hardware) == ("", "")
    late = devices.hold(lock.key, hardware, "container/hw.test-cpu", 7, "the token of its own file")
    assert late.worker == "m/hw.test-cpu", "a process that was silent lost its hold"


def test_device_whose_lock_cannot_be_opened_names_the_path_and_the_remedy(
    tmp_path: Path, hardware: Hardware
) -> None:
    folder = tmp_path / f"kernel-arena-{os.getuid()}"
    folder.symlink_to(tmp_path)
    lock = DeviceLock("GPU-a", "m/hw.test-cpu", tmp_path)
    text = f"It cannot be locked: {folder} is somebody else's; remove it."
    assert lock.hold(hardware) == ("", text)
    assert not Device.objects.exists()
    folder.unlink()
    assert lock.hold(hardware) == ("", "")
    lock.close()


@pytest.fixture
def closed_folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that this process cannot enter, also where root runs it."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    yield folder
    os.seteuid(user)


def test_device_whose_folder_of_locks_is_closed_names_it_and_the_remedy(
    hardware: Hardware, closed_folder: Path
) -> None:
    holder, problem = DeviceLock("GPU-a", "m/hw.test-cpu", closed_folder).hold(hardware)
    assert holder == ""
    assert problem == (
        f"It cannot be locked: {closed_folder}/kernel-arena-{os.getuid()}: Permission denied; give"
        " it to the worker's user, or remove it."
    )


def test_cores_are_those_of_the_machine_whatever_the_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ARENA_MACHINE_ID", "box")
    assert device_locks.key_of("cores-14ab") == device_locks.key_of("") == "cores-box"
    assert device_locks.key_of("GPU-aaaa") == "GPU-aaaa"
    monkeypatch.delenv("ARENA_MACHINE_ID")
    assert device_locks.machine_id() == device_locks.BOOT_ID.read_text().strip()


def test_bench_of_another_process_is_not_taken() -> None:
    with taken([Bench(ours=False)]) as bench:
        assert bench is None
    with taken([Bench(ours=False), Bench("", {"which": "ours"})]) as bench:
        assert bench is not None and bench.environment == {"which": "ours"}
