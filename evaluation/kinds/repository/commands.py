"""Commands of repository tasks: judge a changed copy, check a task, answer a request.

python -m evaluation judge sparse_product repository ~/sparse_product
python -m evaluation admit sparse_product repository
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from evaluation.errors import RequestError
from evaluation.judge import report_text
from evaluation.judge.answers import (
    NOT_PASSED,
    PASSED,
    admitted,
    is_unconfined,
    judged,
    judged_in_lines,
    source_of,
    stage_and_scope,
)
from evaluation.judge.request import Emit
from evaluation.kinds.repository import submission
from evaluation.kinds.repository.judge import judge, not_judged_here
from evaluation.kinds.repository.task import RepositoryTask, find_task
from evaluation.types import Report


def judge_sources(options: argparse.Namespace) -> int:
    """Judge a changed copy of a repository, or one file in place of the first editable one."""
    task = find_task(options.tasks, options.operator)
    files = _files(task, options.sources)
    judge = partial(_judged, task, files, options.cache, options.scope)
    return judged(judge, options.json, _summary)


def _files(task: RepositoryTask, sources: list[Path]) -> dict[str, str]:
    """Return the files to judge by name. Raises RequestError."""
    if len(sources) != 1:
        raise RequestError(f"{task.slug} takes one changed copy of the repository, or one file")
    (path,) = sources
    if path.is_dir():
        return submission.read(task, path)
    source = source_of(path, submission.MAX_BYTES, "name a changed copy, or a file")
    return {task.target_file: source}


def serve(data: Mapping[str, Any], cache: Path, tasks: Path) -> int:
    """Judge a JSON request; every answer is a JSON line. Raises RequestError."""
    task = find_task(Path(data.get("tasks_root") or tasks), str(data["task"]).partition("/")[0])
    stage, scope = stage_and_scope(data)
    if data.get("profile") is not None:
        raise RequestError(not_profiled(task.name))
    files = dict(data["files"])
    return judged_in_lines(partial(_judged, task, files, cache, scope, stage=stage))


def not_profiled(name: str) -> str:
    return f"{name}: repositories are not profiled"


def _judged(
    task: RepositoryTask,
    files: Mapping[str, str],
    cache: Path,
    scope: str,
    emit: Emit,
    stage: str = "all",
) -> Report:
    final = scope == "final"
    return judge(task, files, cache, emit, stage=stage, final=final, unconfined=is_unconfined())


def _summary(report: Report) -> str:
    reason = f" ({report.reason})" if report.reason else ""
    seconds = ", ".join(f"{name} {value:.1f}" for name, value in report.seconds.items())
    clock = report_text.interval(report.seen)
    rows = [("suite's own clock", clock), ("seconds", seconds)]
    return f"\n{report.task}: {report.verdict}{reason}\n{report_text.table(rows)}"


def admit_task(options: argparse.Namespace) -> int:
    """Check a task with its own commands; true also for one that cannot be judged here."""
    from evaluation.kinds.repository.admission import admit

    task = find_task(options.tasks, options.operator)
    check = partial(admit, task, options.cache)
    return PASSED if admitted(task.slug, options, not_judged_here(task), check) else NOT_PASSED
