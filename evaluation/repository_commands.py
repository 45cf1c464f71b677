"""Commands of repository tasks: judge a changed copy, check a task, answer a request.

python -m evaluation judge sparse_product repository ~/sparse_product
python -m evaluation admit sparse_product repository
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluation import pipeline, report_text
from evaluation.errors import RequestError
from evaluation.repository import submission
from evaluation.repository.judge import judge, not_judged_here
from evaluation.repository.task import RepositoryTask, find_task
from evaluation.types import GateResult, Report, TaskCheck, Verdict, to_json

PASSED, NOT_PASSED, BROKEN = 0, 1, 3


def judge_sources(options: argparse.Namespace) -> int:
    """Judge a changed copy of a repository, or one file in place of the first editable one."""
    task = find_task(options.tasks, options.operator)
    files = _files(task, options.sources)

    def emit(result: GateResult) -> None:
        line = {"type": "gate", **to_json(result)}
        print(json.dumps(line) if options.json else report_text.gate(result), flush=True)

    report = _judged(task, files, options.cache, options.scope, emit)
    print(json.dumps({"type": "report", **to_json(report)}) if options.json else _summary(report))
    return _exit_code(report)


def _files(task: RepositoryTask, sources: list[Path]) -> dict[str, str]:
    """Return the files to judge by name. Raises RequestError."""
    if len(sources) != 1:
        raise RequestError(f"{task.slug} takes one changed copy of the repository, or one file")
    (path,) = sources
    if path.is_dir():
        return submission.read(task, path)
    try:
        content = path.read_bytes()[: submission.MAX_BYTES + 1]
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror}; name a changed copy, or a file") from error
    return {task.target_file: content.decode("utf-8", errors="replace")}


def serve(data: Mapping[str, Any], cache: Path, tasks: Path) -> int:
    """Judge a JSON request; every answer is a JSON line. Raises RequestError."""

    def emit(result: GateResult) -> None:
        print(json.dumps({"type": "gate", **to_json(result)}), flush=True)

    task = find_task(Path(data.get("tasks_root") or tasks), str(data["task"]).partition("/")[0])
    stage, scope = data.get("stage", "all"), data.get("scope", "final")
    if stage not in pipeline.STAGES or scope not in pipeline.SCOPES:
        raise RequestError(f"stage is one of {pipeline.STAGES}, scope one of {pipeline.SCOPES}")
    if data.get("profile") is not None:
        raise RequestError(not_profiled(task.name))
    report = _judged(task, dict(data["files"]), cache, scope, emit, stage)
    print(json.dumps({"type": "report", **to_json(report)}), flush=True)
    return _exit_code(report)


def not_profiled(name: str) -> str:
    return f"{name}: repositories are not profiled"


def _judged(
    task: RepositoryTask,
    files: Mapping[str, str],
    cache: Path,
    scope: str,
    emit: pipeline.Emit,
    stage: str = "all",
) -> Report:
    unconfined = os.environ.get("ARENA_UNCONFINED") == "1"
    final = scope == "final"
    return judge(task, files, cache, emit, stage=stage, final=final, unconfined=unconfined)


def _exit_code(report: Report) -> int:
    return {Verdict.PASSED: PASSED, Verdict.BROKEN: BROKEN}.get(report.verdict, NOT_PASSED)


def _summary(report: Report) -> str:
    reason = f" ({report.reason})" if report.reason else ""
    seconds = ", ".join(f"{name} {value:.1f}" for name, value in report.seconds.items())
    clock = report_text.interval(report.seen)
    rows = [("suite's own clock", clock), ("seconds", seconds)]
    return f"\n{report.task}: {report.verdict}{reason}\n{report_text.table(rows)}"


def admit_task(options: argparse.Namespace) -> int:
    """Check a task with its own commands; true also for one that cannot be judged here."""
    from evaluation.admission.repository import admit

    task = find_task(options.tasks, options.operator)

    def emit(kind: str, data: Mapping[str, Any]) -> None:
        if options.stream:
            print(json.dumps({"type": kind, "task": task.slug, **data}), flush=True)

    def report(check: TaskCheck) -> None:
        emit("check", to_json(check))
        if not (options.stream or options.json):
            print(report_text.attempt(check), flush=True)

    if why := not_judged_here(task):
        emit("skipped", {"message": why})
        print(f"{task.slug}: skipped: {why}", file=sys.stderr)
        return PASSED
    admission = admit(task, options.cache, report)
    emit("admission", to_json(admission))
    if not options.stream:
        text = json.dumps(to_json(admission)) if options.json else report_text.admission(admission)
        print(text, flush=True)
    return PASSED if admission.admitted else NOT_PASSED
