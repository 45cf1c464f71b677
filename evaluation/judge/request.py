"""A request for a verdict, and the form of the files that are handed in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.errors import SubmissionError
from evaluation.types import GateName, GateResult, Reason

TASKS = Path(__file__).resolve().parents[2] / "tasks"
MAX_BYTES = 1 << 20
MAX_FILES = 16
_SURROGATE = re.compile("[\ud800-\udfff]")
_FILE_NAME = re.compile(r"[A-Za-z_]\w{0,60}\.(?:cpp|h|hpp|py|cu|cuh|hip)")

Emit = Callable[[GateResult], None]
Progress = Callable[[GateName, int, int], None]
"""Called before each case of a gate, with the number of cases done and of all."""

STAGES = ("build", "measure", "all")
SCOPES = ("round", "final")


@dataclass(frozen=True)
class Request:
    """A submission to judge; `stage` and `scope` select gates (see `pipeline.Gate`)."""

    task: Any
    """A task as its kind finds it, with `slug` and `hash`."""
    files: Mapping[str, str]
    cache: Path
    stage: str = "all"
    scope: str = "final"
    unconfined: bool = False
    """The owner of this machine allows judging without isolation."""
    progress: Progress = lambda gate, done, total: None
    arrived: Path | None = None
    """Folder of artefacts that another machine built for this verdict."""

    @property
    def final(self) -> bool:
        return self.scope == "final"


def check_files(files: Mapping[str, str], target: str) -> None:
    """Refuse malformed submissions. Raises SubmissionError(BAD_SOURCE)."""
    if problem := _problem(files, target):
        raise SubmissionError(Reason.BAD_SOURCE, problem)


def _problem(files: Mapping[str, str], target: str) -> str:
    if target not in files:
        given = ", ".join(sorted(files)) or "none"
        return f"{target} is missing; the files handed in: {given}"
    if not files[target].strip():
        return f"{target} is empty; write the kernel into it"
    if len(files) > MAX_FILES:
        return f"{len(files)} files; at most {MAX_FILES} are judged"
    for name, text in files.items():
        if not _FILE_NAME.fullmatch(name):
            return f"{name!r} is no name for a source file"
        if "\0" in text or "\ufffd" in text or _SURROGATE.search(text):
            return f"{name} is not UTF-8 text"
    size = sum(len(text.encode(errors="replace")) for text in files.values())
    limit = f"{MAX_BYTES >> 20} MiB"
    return f"more than {limit} of source; at most {limit} is judged" if size > MAX_BYTES else ""
