"""Integrity: static analysis that rejects plain rule violations. Security does not rest on it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from evaluation.errors import SubmissionError
from evaluation.kinds.kernel.gates import Trial
from evaluation.types import GateName, GateResult, Reason, Verdict

NAME, ORDER, STAGE, HIDDEN = GateName.INTEGRITY, 10, "build", False

MAX_BYTES = 1 << 20
MAX_FILES = 16
MAX_SHOWN = 4
"""Ignored statements that the message shows."""
_FILE_NAME = re.compile(r"[A-Za-z_]\w{0,60}\.(?:cpp|h|hpp|py|cu|cuh|hip)")


def judge(trial: Trial) -> GateResult:
    read(trial.files, trial.task.target_file)
    trial.language.check(trial.files, trial.task)
    message, ignored = "no rule violations found", list(trial.language.ignored(trial.files))
    if ignored:
        message += f"; ignored, as the judge sets these switches: {'; '.join(ignored[:MAX_SHOWN])}"
    detail = {"ignored": ignored} if ignored else {}
    return GateResult(NAME, Verdict.PASSED, message=message, passed=1, total=1, detail=detail)


def read(files: Mapping[str, str], target: str) -> None:
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
        if "\0" in text or "\ufffd" in text:
            return f"{name} is not UTF-8 text"
    size = sum(len(text.encode(errors="replace")) for text in files.values())
    limit = f"{MAX_BYTES >> 20} MiB"
    return f"more than {limit} of source; at most {limit} is judged" if size > MAX_BYTES else ""
