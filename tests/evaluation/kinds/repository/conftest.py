"""A repository of shell scripts, whose benchmark reports what its one editable file sets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from evaluation.kinds.repository import benchmark
from evaluation.kinds.repository.benchmark import Extent
from evaluation.kinds.repository.task import RepositoryTask, load

TOML = """
title = "Answer"
category = "Math"
prompt = "Set the answer, and lower the time."
editable = ["kernel.sh", "more/*.sh"]

[build]
command = ["sh", "build.sh"]
seconds = 20

[correctness]
command = ["sh", "tests/check.sh"]
seconds = 2

[benchmark]
command = ["sh", "bench.sh"]
seconds = 2
"""
FILES = {
    "repository.toml": TOML,
    "kernel.sh": "answer=42\ntime=100\n",
    "more/helper.sh": "help=yes\n",
    "build.sh": ". ./kernel.sh\ncat kernel.sh > built.sh\n",
    "tests/check.sh": '. ./built.sh\n[ "$answer" = 42 ] || { echo "answer is $answer"; exit 1; }\n',
    "bench.sh": '. ./built.sh\nprintf \'{"nonce": "%s", "times_us": {"one": %s}}\\n\' '
    '"$ARENA_NONCE" "$time"\n',
}


def write(root: Path, changes: Mapping[str, str] | None = None) -> Path:
    """Write the task `answer`, with some files replaced, and return its folder."""
    folder = root / "repository" / "answer"
    for name, text in {**FILES, **(changes or {})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path)


@pytest.fixture
def answer(folder: Path) -> RepositoryTask:
    return load(folder)


@pytest.fixture(autouse=True)
def one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """One block of times: the scripts report the same ones each time."""
    for name in ("ROUND", "FINAL"):
        monkeypatch.setattr(benchmark, name, Extent(1, 1, 1.0, 1.0))
