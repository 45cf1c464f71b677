"""Builds that are kept between runs of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evaluation.code.languages.cpp import Cpp
from evaluation.kinds.kernel.builds import build
from evaluation.kinds.kernel.load import load_task
from tests import kept_builds

OPERATORS = Path(__file__).parent / "evaluation" / "operators"
SOURCE = '#include "scaled.h"\nextern "C" int scaled(const scaled_args* args) { return 0; }\n'


@pytest.fixture
def builds(tmp_path: Path) -> Path:
    return tmp_path / "test-builds"


def test_source_is_compiled_once_for_two_caches(
    builds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = load_task(OPERATORS, "scaled", "cpp-to-cpp")
    found = []
    for name in ("first", "second"):
        (cache := tmp_path / name).mkdir()
        kept_builds.link(cache, builds)
        found.append(build(task, "cpp", {"scaled.cpp": SOURCE}, cache).folder.resolve())
        monkeypatch.setattr(Cpp, "build", None)
    assert found[0] == found[1] and (found[0] / "kernel.so").is_file()


def test_another_compiler_or_builder_has_a_folder_of_its_own(tmp_path: Path) -> None:
    checkout = kept_builds.ROOT
    names = [kept_builds.name_of(checkout, compiler) for compiler in ("g++ 98", "g++ 99")]
    evaluation = tmp_path / "evaluation"
    evaluation.symlink_to(checkout / "evaluation")
    assert kept_builds.name_of(tmp_path, "g++ 99") == names[-1]
    evaluation.unlink()
    (evaluation / "code").mkdir(parents=True)
    for name in ("errors.py", "types.py", "code/native.py"):
        (evaluation / name).write_text("changed")
    names.append(kept_builds.name_of(tmp_path, "g++ 99"))
    assert len(set(names)) == 3


def test_earlier_folders_and_what_takes_too_much_room_are_removed(builds: Path) -> None:
    for number in range(6):
        (builds / str(number)).mkdir(parents=True)
        (builds / str(number) / "kernel.so").write_bytes(b"x" * 10_000)
        os.utime(builds / str(number), (number, number))
    kept_builds.make_room(builds)
    assert sorted(path.name for path in builds.iterdir()) == ["2", "3", "4", "5"]
    kept_builds.make_room(builds, 25_000)
    assert sorted(path.name for path in builds.iterdir()) == ["4", "5"]
