"""Failures of the judge on one case: their cause names it, or says that its memory is too small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

from evaluation.errors import Broken, Inconclusive, SubmissionError, TaskError
from evaluation.judge.report import DeviceFull
from evaluation.types import Case, Split

Method = TypeVar("Method", bound=Callable[..., Any])
ADVICE = "judge it on one with more memory, or make the case smaller"


@contextmanager
def failures_named(case: Case) -> Iterator[None]:
    """Note the case on a failure of the judge, which staff see. Only a seen one is public.

    Raises: DeviceFull where the device has too little memory.
    """
    try:
        yield
    except (SubmissionError, Inconclusive):
        raise
    except Exception as error:
        if _is_named(error):
            raise
        if not _is_full(error):
            error.add_note(f"in case {case.name}")
            raise
        subject = f"case {case.name}" if case.split is Split.SEEN else "a hidden case"
        full = DeviceFull(f"{subject} needs more memory than this device has free; {ADVICE}")
        full.add_note(f"in case {case.name}: {error}")
        raise full from error


def _is_named(error: Exception) -> bool:
    return any(note.startswith("in case ") for note in getattr(error, "__notes__", ()))


def _is_full(error: Exception) -> bool:
    """Return whether the judge, a baseline or the code of the task found no memory.

    PyTorch, the CUDA runtime and the handler of a process's requests say so in the same words.
    """
    return isinstance(error, RuntimeError | Broken | TaskError) and "out of memory" in str(error)


def names_case(method: Method) -> Method:
    """Return a method about a case in whose failures the case is named."""

    @wraps(method)
    def named(self: object, case: Case, *args: Any, **kwargs: Any) -> Any:
        with failures_named(case):
            return method(self, case, *args, **kwargs)

    return cast("Method", named)
