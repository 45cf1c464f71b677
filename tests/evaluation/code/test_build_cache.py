"""The cache of what was built keeps what is used, within bounds."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from evaluation.code import build_cache
from evaluation.kinds.kernel.builds import build, traveller
from evaluation.tasks.spec import Task

HOUR = 3600
SOURCE = '#include "scaled.h"\nextern "C" int scaled(const scaled_args*) { return 0; }  // room\n'
ROOM = 35_000


def kept(folder: Path, name: str, hours: float, done: bool = True, size: int = 10_000) -> Path:
    """Make a build of so many bytes that was last used so long ago."""
    built = folder / name
    (built / "below").mkdir(parents=True)
    (built / "below" / "artefact").write_bytes(bytes(size))
    if done:
        (built / build_cache.DONE).touch()
    then = time.time() - hours * HOUR  # waits: the age of a file
    for path in (built / build_cache.DONE, built) if done else (built,):
        os.utime(path, (then, then))
    return built


def test_what_was_not_used_for_longest_goes(tmp_path: Path) -> None:
    for name, hours in (("a", 5), ("b", 2), ("c", 9), ("d", 3)):
        kept(tmp_path, name, hours)
    build_cache.make_room(tmp_path, ROOM)
    assert {path.name for path in tmp_path.iterdir()} == {"b", "d"}


def test_what_may_be_in_use_stays_whatever_it_takes(tmp_path: Path) -> None:
    for name in "abc":
        kept(tmp_path, name, 0.5, size=100_000)
    build_cache.make_room(tmp_path, ROOM)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_build_under_way_stays_and_one_that_was_killed_goes(tmp_path: Path) -> None:
    kept(tmp_path, "building-now", 0.1, done=False)
    locked = kept(tmp_path, "building-killed", 2, done=False)
    (locked / "below").chmod(0)
    build_cache.make_room(tmp_path, ROOM)
    assert {path.name for path in tmp_path.iterdir()} == {"building-now"}


def test_a_small_cache_is_left_alone(tmp_path: Path) -> None:
    kept(tmp_path, "old", 10_000)
    build_cache.make_room(tmp_path, ROOM)
    assert (tmp_path / "old" / build_cache.DONE).is_file()


def test_all_builds_are_gone_through_once_in_an_hour(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    assert [build_cache._long_ago(mark) for _ in range(3)] == [True, False, False]
    then = time.time() - 1.1 * HOUR  # waits: the age of a file
    os.utime(mark, (then, then))
    assert [build_cache._long_ago(mark) for _ in range(2)] == [True, False]


def test_what_is_wrong_with_the_builds_of_others_decides_nothing(
    tmp_path: Path, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(folder: Path) -> None:
        raise RecursionError(f"{folder} is too deep")

    monkeypatch.setattr(build_cache, "make_room", fails)
    assert build(task, "cpp", {task.target_file: SOURCE}, tmp_path).outputs[0].ok


def test_scratch_folders_of_baselines_are_bounded_too(tmp_path: Path, task: Task) -> None:
    old = build_cache.scratch_folder(tmp_path, "torch-old")
    for path in (old / build_cache.DONE, old):
        os.utime(path, (0, 0))
    (old.parent / "killed").mkdir()
    os.utime(old.parent / "killed", (0, 0))
    build(task, "cpp", {task.target_file: SOURCE}, tmp_path)
    assert {path.name for path in old.parent.iterdir()} == {"torch-old"}
    (old / "kernel.so").write_bytes(bytes(ROOM))
    build_cache.make_room(old.parent, ROOM)
    assert not old.exists()
    assert build_cache.scratch_folder(tmp_path, "torch-old") == old


def test_outputs_of_an_earlier_build_are_marked_as_reused(tmp_path: Path, task: Task) -> None:
    first, second = (build(task, "cpp", {task.target_file: SOURCE}, tmp_path) for _ in range(2))
    assert [output.reused for output in (*first.outputs, *second.outputs)] == [False, True]


def test_artefact_of_another_machine_is_used_for_one_verdict_and_not_kept(
    tmp_path: Path, task: Task
) -> None:
    files = {task.target_file: SOURCE}
    built = build(task, "cpp", files, tmp_path / "builder")
    sent = traveller(built)
    arrived = tmp_path / "arrived"
    shutil.copytree(built.folder, arrived / sent["key"])
    used = build(task, "cpp", files, tmp_path / "device", arrived=arrived)
    assert used.folder == arrived / sent["key"]
    assert [output.text for output in used.outputs] == [output.text for output in built.outputs]
    assert not (tmp_path / "device").exists(), "it would serve other verdicts"


@pytest.mark.parametrize("spoil", ["another origin", "no outputs"])
def test_artefact_that_does_not_fit_is_built_anew(spoil: str, tmp_path: Path, task: Task) -> None:
    files = {task.target_file: SOURCE}
    built = build(task, "cpp", files, tmp_path / "builder")
    key = traveller(built)["key"]
    if spoil == "another origin":
        key = build_cache.travel_key(built.folder.name, "g++ 1.0 on another processor")
    arrived = tmp_path / "arrived"
    shutil.copytree(built.folder, arrived / key)
    if spoil == "no outputs":
        (arrived / key / build_cache.DONE).write_text('{"tool": 1}')
    used = build(task, "cpp", files, tmp_path / "device", arrived=arrived)
    assert used.folder.parent == tmp_path / "device" / "builds"
