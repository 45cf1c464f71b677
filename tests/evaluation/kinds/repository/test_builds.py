"""Builds of a repository in the cache."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from evaluation.code.build_cache import DONE
from evaluation.kinds.repository.builds import checkout
from evaluation.kinds.repository.judge import judge
from evaluation.kinds.repository.task import CORRECTNESS, RepositoryTask
from evaluation.types import Verdict

FILES = {"kernel.sh": "answer=42\ntime=20\n"}


def test_kept_build_is_found_with_its_output_marked_as_reused(
    answer: RepositoryTask, cache: Path
) -> None:
    made, found = (checkout(answer, FILES, cache) for _ in range(2))
    reused = tuple(dataclasses.replace(output, reused=True) for output in made.outputs)
    assert found == dataclasses.replace(made, outputs=reused)  # it took as long, so it is that one
    assert made.outputs[0].text.startswith("$ sh build.sh")


def test_run_marks_its_build_as_used(answer: RepositoryTask, cache: Path) -> None:
    built = checkout(answer, FILES, cache)
    os.utime(built.folder / DONE, (0, 0))
    assert built.run(answer.commands[CORRECTNESS], {}).returncode == 0
    assert (built.folder / DONE).stat().st_mtime > 0


def test_commands_run_at_the_path_of_the_build(answer: RepositoryTask, cache: Path) -> None:
    kernel = '[ "$0" = build.sh ] && pwd > where\n[ "$(pwd)" = "$(cat where)" ] && answer=42\n'
    report = judge(answer, {"kernel.sh": f"{kernel}time=20\n"}, cache)
    assert report.verdict is Verdict.PASSED


def test_place_of_a_build_is_left_empty(answer: RepositoryTask, cache: Path) -> None:
    built = checkout(answer, FILES, cache)
    built.run(answer.commands[CORRECTNESS], {})
    assert [path.name for path in built.place.iterdir()] == ["lock"]
