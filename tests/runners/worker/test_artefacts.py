"""Artefacts that travel: packed where they were compiled, and unpacked for one verdict."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arena.catalog import services as catalog
from arena.runs import artefacts as stored
from arena.runs import services
from arena.runs.models import Artefact, Evaluation, Run
from runners.worker import artefacts
from tests.arena.factories import LEASE, ask_for_verdict

KEY = "0123456789" * 4


@pytest.fixture
def building(start: Callable[..., Run], hardware: Any) -> tuple[Evaluation, str]:
    """Return an evaluation that is being built here, for a device of another machine; its lease."""
    catalog.heartbeat_worker("gpu-1/hw", queues=[hardware.queue], pid=1, hardware=hardware)
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run)
    Evaluation.objects.filter(pk=evaluation.pk).update(status="queued", lease="")
    lease = services.new_lease()
    assert services.claim_evaluation(evaluation.pk, "queued", "building", lease)
    evaluation.refresh_from_db()
    return evaluation, lease


@pytest.fixture
def builds(tmp_path: Path) -> Path:
    """Return the builds of a cache with one artefact."""
    folder = tmp_path / "builds" / KEY
    (folder / "more").mkdir(parents=True)
    (folder / "kernel.so").write_bytes(b"\x7fELF")
    (folder / "more" / "notes").write_text("two")
    return folder.parent


@pytest.mark.django_db
def test_artefact_arrives_for_its_evaluation_and_is_removed(
    building: tuple[Evaluation, str], builds: Path, tmp_path: Path
) -> None:
    evaluation, lease = building
    assert artefacts.send(evaluation, lease, builds, {"folder": KEY, "key": KEY})
    with artefacts.arrived(evaluation.pk, tmp_path / "other") as folder:
        assert folder is not None
        assert (folder / KEY / "kernel.so").read_bytes() == b"\x7fELF"
        assert (folder / KEY / "more" / "notes").read_text() == "two"
    assert not folder.exists()
    with artefacts.arrived(evaluation.pk + 1, tmp_path / "other") as folder:
        assert folder is None


@pytest.mark.django_db
def test_artefact_that_a_killed_worker_has_left_is_removed_a_day_later(
    building: tuple[Evaluation, str], builds: Path, tmp_path: Path
) -> None:
    evaluation, lease = building
    assert artefacts.send(evaluation, lease, builds, {"folder": KEY, "key": KEY})
    old, young = (tmp_path / "arrived" / name for name in ("1-old", "2-young"))
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / "kernel.so").touch()
    os.utime(old, (0, 0))
    with artefacts.arrived(evaluation.pk, tmp_path):
        assert not old.exists() and young.exists()


@pytest.mark.django_db
def test_artefact_stays_where_its_device_is(
    building: tuple[Evaluation, str], builds: Path, hardware: Any
) -> None:
    evaluation, lease = building
    catalog.remove_worker("gpu-1/hw", 1)
    here = f"{lease.split(':')[0]}/hw"
    catalog.heartbeat_worker(here, queues=[hardware.queue], pid=1, hardware=hardware)
    assert not artefacts.send(evaluation, lease, builds, {"folder": KEY, "key": KEY})


@pytest.mark.django_db
@pytest.mark.parametrize(
    "built", [{}, {"folder": "../secrets", "key": KEY}, {"folder": KEY, "key": "../" + KEY}]
)
def test_artefact_without_a_plain_name_does_not_travel(
    building: tuple[Evaluation, str], builds: Path, built: dict[str, str]
) -> None:
    assert not artefacts.send(*building, builds, built)


@pytest.mark.django_db
def test_artefact_of_a_lost_lease_or_of_many_bytes_is_not_stored(
    building: tuple[Evaluation, str], builds: Path
) -> None:
    evaluation, lease = building
    assert not stored.store(evaluation, "another lease", KEY, b"x")
    assert not stored.store(evaluation, lease, KEY, bytes(stored.MAX_BYTES + 1))
    assert stored.store(evaluation, lease, KEY, b"x") and stored.store(evaluation, lease, KEY, b"y")
    assert stored.find(evaluation.pk) == (KEY, b"y")


@pytest.mark.django_db
def test_artefact_whose_content_or_key_was_changed_is_not_used(
    building: tuple[Evaluation, str], tmp_path: Path
) -> None:
    evaluation, lease = building
    for changed in ({"content": b"z"}, {"key": "../../" + "a" * 34}):
        stored.store(evaluation, lease, KEY, b"y")
        Artefact.objects.update(**changed)
        assert stored.find(evaluation.pk) is None


@pytest.mark.django_db
def test_artefacts_are_removed_once_measured_and_beyond_their_number(
    building: tuple[Evaluation, str],
) -> None:
    evaluation, lease = building
    stored.store(evaluation, lease, KEY, b"y")
    assert stored.make_room() == 0
    assert stored.make_room(rows=1) == 0
    assert stored.make_room(rows=0) == 1
    stored.store(evaluation, lease, KEY, b"y")
    Evaluation.objects.update(status="done")
    assert stored.make_room() == 1


def archive(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as made:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, link
        made.addfile(member)
    return packed.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        archive("../outside"),
        archive("link", tarfile.SYMTYPE, "/etc/passwd"),
        archive("device", tarfile.CHRTYPE),
        b"no archive",
        gzip.compress(b"no archive"),
        archive("cut")[:60],
        archive("torn")[:20] + b"\xff" * 100,
        gzip.compress(bytes(artefacts.MAX_ARCHIVE_BYTES + 1)),
    ],
    ids=["above", "link", "device", "none", "packed", "cut", "torn", "large"],
)
def test_archive_that_reaches_outside_or_is_none_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(ValueError, match=r"outside|regular|gzip|truncated|ended|Error|many bytes"):
        artefacts.unpack(content, tmp_path / "in" / "here")
    assert not (tmp_path / "in" / "outside").exists()
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]
