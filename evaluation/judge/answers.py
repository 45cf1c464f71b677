"""Answers of the judge's commands, for every kind of task: exit codes, JSON lines and text."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evaluation.errors import RequestError, TaskError
from evaluation.judge import report_text
from evaluation.judge.admission import Admission, Attempt
from evaluation.judge.request import SCOPES, STAGES, Emit
from evaluation.types import GateResult, Report, TaskCheck, Verdict, to_json

PASSED, NOT_PASSED, BAD_REQUEST, BROKEN, INCONCLUSIVE = 0, 1, 2, 3, 4


def exit_code(report: Report) -> int:
    """Return the exit code of a verdict."""
    codes = {
        Verdict.PASSED: PASSED,
        Verdict.BROKEN: BROKEN,
        Verdict.INCONCLUSIVE: INCONCLUSIVE,
    }
    return codes.get(report.verdict, NOT_PASSED)


def print_json(kind: str, data: Mapping[str, Any]) -> None:
    """Print a JSON line."""
    print(json.dumps({"type": kind, **data}), flush=True)


def print_gate(result: GateResult) -> None:
    """Print a gate's result as text."""
    print(report_text.gate(result), flush=True)


def print_gate_line(result: GateResult) -> None:
    """Print a gate's result as a JSON line."""
    print_json("gate", to_json(result))


def judged(judge: Callable[[Emit], Report], as_json: bool, summary: Callable[[Report], str]) -> int:
    """Judge, print each gate's result and the report, and return the exit code."""
    if as_json:
        return judged_in_lines(judge)
    report = judge(print_gate)
    print(summary(report))
    return exit_code(report)


def judged_in_lines(judge: Callable[[Emit], Report]) -> int:
    """Judge, print each gate's result and the report as JSON lines, and return the exit code.

    The cause of a failure of the judge is printed on standard error too, since it ends the judge.
    """
    report = judge(print_gate_line)
    print_json("report", to_json(report))
    code = exit_code(report)
    if code == BROKEN:
        print(f"the judge failed on {report.task}: {report.message}", file=sys.stderr, flush=True)
    return code


def admitted(
    slug: str,
    options: argparse.Namespace,
    unavailable: str,
    admit: Callable[[Callable[[Attempt | TaskCheck], None]], Admission],
    attempts: int,
) -> bool:
    """Check a task for admission, print what is found, and return whether it is admitted.

    It is true also for one that is `unavailable` here. `attempts` implementations will be judged.

    Raises: TaskError, unless lines are asked for, where it is one.
    """

    def emit(kind: str, data: Mapping[str, Any]) -> None:
        if options.stream:
            print_json(kind, {"task": slug, **data})

    def report(found: Attempt | TaskCheck) -> None:
        if options.stream:
            emit("check" if isinstance(found, TaskCheck) else "attempt", to_json(found))
        elif not options.json:
            print(report_text.attempt(found), flush=True)

    if unavailable:
        emit("skipped", {"message": unavailable})
        print(f"{slug}: skipped: {unavailable}", file=sys.stderr)
        return True
    try:
        if attempts:
            emit("task", {"count": attempts})
            if not (options.json or options.stream):
                print(f"{slug}: judging {attempts} implementations", flush=True)
        admission = admit(report)
    except TaskError as error:
        if not options.stream:
            raise
        emit("error", {"message": str(error)})
        return False
    if options.stream:
        emit("admission", to_json(admission))
    else:
        text = json.dumps(to_json(admission)) if options.json else report_text.admission(admission)
        print(text, flush=True)
    return admission.admitted


def stage_and_scope(data: Mapping[str, Any]) -> tuple[str, str]:
    """Return stage and scope of a request. Raises RequestError."""
    stage, scope = data.get("stage", "all"), data.get("scope", "final")
    if stage not in STAGES or scope not in SCOPES:
        raise RequestError(f"stage is one of {STAGES}, scope one of {SCOPES}")
    return stage, scope


def is_unconfined() -> bool:
    """Return whether the owner of this machine allows judging without isolation."""
    return os.environ.get("ARENA_UNCONFINED") == "1"


def require_cache(folder: Path) -> None:
    """Make the cache folder. Raises RequestError where nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise RequestError(
            f"{folder}: {error.strerror}; name another cache by --cache or ARENA_CACHE"
        ) from None


def source_of(path: Path, max_bytes: int, advice: str = "name the file to judge") -> str:
    """Return a file to judge, and no more than shows that it is too large.

    Bytes that are not UTF-8 become U+FFFD, for the integrity gate to refuse.

    Raises: RequestError for an unreadable file.
    """
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror}; {advice}") from error
    return content.decode("utf-8", errors="replace")
