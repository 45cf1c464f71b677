"""Builds that are kept between runs of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evaluation.building import native
from evaluation.languages.cpp import Cpp
from evaluation.tracks.builds import build
from evaluation.tracks.load import load_task
from tests import kept_builds

OPERATORS = Path(__file__).parent / "evaluation" / "operators"
SOURCE = '#include "scaled.h"\nextern "C" int scaled(const scaled_args* args) { return 0; }\n'


@pytest.fixture(autouse=True)
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "test-builds"
    monkeypatch.setattr(kept_builds, "BUILDS", folder)
    return folder


def test_source_is_compiled_once_for_two_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = load_task(OPERATORS, "scaled", "cpp-to-cpp")
    found = []
    for name in ("first", "second"):
        (cache := tmp_path / name).mkdir()
        kept_builds.link(cache)
        found.append(build(task, "cpp", {"scaled.cpp": SOURCE}, cache).folder.resolve())
        monkeypatch.setattr(Cpp, "build", None)
    assert found[0] == found[1] and (found[0] / "kernel.so").is_file()


def test_another_compiler_or_builder_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [kept_builds.folder()]
    monkeypatch.setattr(native, "compiler_version", lambda: "g++ 99")
    folders.append(kept_builds.folder())
    evaluation = tmp_path / "evaluation"
    evaluation.symlink_to(kept_builds.ROOT / "evaluation")
    monkeypatch.setattr(kept_builds, "ROOT", tmp_path)
    assert kept_builds.folder() == folders[-1]
    evaluation.unlink()
    (evaluation / "building").mkdir(parents=True)
    for name in ("errors.py", "types.py", "building/native.py"):
        (evaluation / name).write_text("changed")
    folders.append(kept_builds.folder())
    assert len(set(folders)) == 3


def test_earlier_folders_and_what_takes_too_much_room_are_removed(
    builds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        (builds / str(number)).mkdir(parents=True)
        (builds / str(number) / "kernel.so").write_bytes(b"x" * 10_000)
        os.utime(builds / str(number), (number, number))
    kept_builds.make_room()
    assert sorted(path.name for path in builds.iterdir()) == ["2", "3", "4", "5"]
    monkeypatch.setattr(kept_builds, "MAX_BYTES", 25_000)
    kept_builds.make_room()
    assert sorted(path.name for path in builds.iterdir()) == ["4", "5"]
