"""Checks and fits of a task's own code, in a `bench.process.task_process`.

That process reads the folder of the task. What it reports can be forged by the code, for this task
alone: it is checked to be what a check or a fit can be.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.task_process import TaskSandbox
from evaluation.code.languages import languages
from evaluation.device_kind import CPU
from evaluation.errors import Broken, SubmissionError, TaskError, line_of
from evaluation.kinds.kernel.admission import fit as fitting
from evaluation.kinds.kernel.admission import reference_mutants, task_checks
from evaluation.kinds.kernel.admission.fit import Fit, Worst
from evaluation.kinds.kernel.admission.reference_check import check_reference
from evaluation.kinds.kernel.load import load_operator
from evaluation.shapes import FAMILIES
from evaluation.tasks.operator import Operator
from evaluation.tasks.spec import Task, load_task_of, reference_hash
from evaluation.tasks.tolerance import Tolerance
from evaluation.types import TaskCheck

MAX_SECONDS = 3600.0
MAX_MESSAGE_CHARACTERS = 4000
NAMES = ("cases", "tolerance", "cost", "mutants")
"""Names of the checks."""
_CASE = re.compile(r"[\w.+-]{1,80}")
_KNOWN: dict[tuple[object, ...], TaskCheck] = {}
"""Checks of mutants: those of an operator are the same for all of its tracks."""


def check_numbers(fork_server: ForkServer, task: Task) -> tuple[TaskCheck, ...]:
    """Check the functions of the reference, then the task's own numbers.

    Raises: TaskError for a wrong result of a function.
    """
    arguments = {"track": task.track.slug, "kind": task.kind}
    found = _called(fork_server, task.operator.folder, numbers_there, arguments)
    return tuple(map(_check, found if isinstance(found, list) else [found]))


def check_mutants(fork_server: ForkServer, operator: Operator, kind: str) -> TaskCheck:
    """Check that wrong implementations made from the reference fail."""
    key = operator.folder, reference_hash(operator.folder), operator.domain.dtypes
    if key not in _KNOWN:
        found = _called(fork_server, operator.folder, mutants_there, {"kind": kind})
        _KNOWN[key] = _check(found)
    return _KNOWN[key]


def fit(fork_server: ForkServer, folder: Path) -> Fit:
    """Check the reference, then fit the tolerance. Raises TaskError as both of them do."""
    found = _called(fork_server, folder, fit_there, {})
    try:
        tolerance = {d: Tolerance(**each) for d, each in found["tolerance"].items()}
        worst = {d: Worst(**each) for d, each in found["worst"].items()}
        fitted = Fit(tolerance, worst, found["bfloat16"])
        proper = _is_proper(fitted)
    except (AttributeError, KeyError, TypeError) as error:
        raise Broken(f"{folder}: the code of the task forged its fit: {error}") from None
    if not proper:
        raise Broken(f"{folder}: the code of the task forged its fit")
    return fitted


def _is_proper(fitted: Fit) -> bool:
    """Return whether a fit has the constants, cases and families that one can have."""

    def is_number(value: object) -> bool:
        return isinstance(value, int | float) and not math.isnan(value)

    return (
        set(fitted.tolerance) == set(fitted.worst) <= set(fitting.C1)
        and all(
            each.c1 == fitting.C1[dtype]
            and is_number(each.c2)
            and fitting.MIN_C2 <= each.c2 <= fitting.MAX_C2
            for dtype, each in fitted.tolerance.items()
        )
        and all(
            is_number(each.error)
            and each.family in ("", *FAMILIES)
            and (not each.case or bool(_CASE.fullmatch(each.case)))
            for each in fitted.worst.values()
        )
        and (fitted.bfloat16 is None or is_number(fitted.bfloat16))
    )


def _check(found: Any) -> TaskCheck:
    """Return a reported check. Raises Broken where it is none."""
    match found:
        case {"name": str(name), "ok": bool(ok), "message": str(message)} if name in NAMES:
            return TaskCheck(name, ok, message[:MAX_MESSAGE_CHARACTERS])
    raise Broken(f"the code of the task forged a check: {str(found)[:80]}")


def _called(
    fork_server: ForkServer,
    folder: Path,
    function: Callable[..., object],
    arguments: Mapping[str, str],
) -> Any:
    """Return what a function of this module reports in a process that reads the folder.

    Raises: TaskError, also where the code of the task fails.
    """
    folder = folder.resolve()
    sandbox = TaskSandbox(fork_server, CPU, MAX_SECONDS, (folder,))
    try:
        found = sandbox.request(
            {
                "do": "call",
                "function": f"{__name__}.{function.__name__}",
                "arguments": {"folder": str(folder), **arguments},
            }
        )
    except SubmissionError as error:
        raise TaskError(f"{folder / 'reference.py'}: {error.message}") from error
    finally:
        sandbox.close()
    match found:
        case {"refused": str(reason)}:
            raise TaskError(reason[:MAX_MESSAGE_CHARACTERS])
        case {"found": report}:
            return report
    raise Broken(f"{folder}: the code of the task forged a report: {str(found)[:80]}")


# In that process


def numbers_there(folder: str, track: str, kind: str) -> object:
    def checks() -> object:
        task = load_task_of(Path(folder), track, languages(), kind)
        check_reference(task.operator)
        return [dataclasses.asdict(check) for check in task_checks.check_numbers(task)]

    return _answered(folder, checks)


def mutants_there(folder: str, kind: str) -> object:
    operator = load_operator(Path(folder), kind)
    return _answered(folder, lambda: dataclasses.asdict(reference_mutants.check_mutants(operator)))


def fit_there(folder: str) -> object:
    def fitted() -> object:
        check_reference(load_operator(Path(folder), has_tolerance=False))
        return dataclasses.asdict(fitting.fit(Path(folder)))

    return _answered(folder, fitted)


def _answered(folder: str, report: Callable[[], object]) -> object:
    try:
        return {"found": report()}
    except TaskError as error:
        return {"refused": str(error)}
    except Exception as error:
        reference = Path(folder) / "reference.py"
        if not (found := line_of(error, reference)):
            raise
        return {"refused": f"{reference}: {found}"}
