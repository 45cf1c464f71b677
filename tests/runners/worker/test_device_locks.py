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
from runners.worker.device_locks import CONTAINER_MARKS, INITIAL_PIDS, DeviceLock, Identity

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


def test_second_process_of_a_device_gets_the_name_of_its_holder(
    locks: Locks, hardware: Hardware
) -> None:
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


def test_process_of_another_container_holds_a_device_while_its_row_is_recent(
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
    assert device_locks.machine_id() == Identity().name()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the root of a machine outside of any container, as far as `Identity` reads it."""
    for name, text in {
        "etc/machine-id": "0123\n",
        "proc/sys/kernel/random/boot_id": "boot-1\n",
        "proc/self/mounts": "proc /proc proc rw 0 0\n/dev/sda1 / ext4 rw 0 0\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "proc/self/ns").mkdir()
    (tmp_path / "proc/self/ns/pid").symlink_to(INITIAL_PIDS)
    return tmp_path


def test_machine_keeps_its_name_after_a_reboot(root: Path) -> None:
    before = Identity(root).name()
    (root / "proc/sys/kernel/random/boot_id").write_text("boot-2\n")
    assert Identity(root).name() == before
    assert "0123" not in before, "the id of the installation is shown"
    (root / "etc/machine-id").write_text("4567\n")
    assert Identity(root).name() not in (before, "boot-2")


@pytest.mark.parametrize("text", ["", "\n", None])
def test_machine_without_an_id_has_that_of_its_boot(root: Path, text: str | None) -> None:
    (root / "etc/machine-id").unlink()
    if text is not None:
        (root / "etc/machine-id").write_text(text)
    assert Identity(root).name() == "boot-1"


@pytest.mark.parametrize("mark", [*CONTAINER_MARKS, "pids", "no pids", "overlay"])
def test_machine_of_a_container_has_the_id_of_the_boot(root: Path, mark: str) -> None:
    assert not Identity(root).is_contained()
    numbering = root / "proc/self/ns/pid"
    match mark:
        case "overlay":
            (root / "proc/self/mounts").write_text("overlay / overlay rw 0 0\n")
        case "pids" | "no pids":
            numbering.unlink()
            if mark == "pids":
                numbering.symlink_to("pid:[4026532000]")
        case _:
            (root / mark).parent.mkdir(parents=True, exist_ok=True)
            (root / mark).touch()
    assert Identity(root).name() == "boot-1"


def test_bench_of_another_process_is_not_taken() -> None:
    with taken([Bench(ours=False)]) as bench:
        assert bench is None
    with taken([Bench(ours=False), Bench("", {"which": "ours"})]) as bench:
        assert bench is not None and bench.environment == {"which": "ours"}
