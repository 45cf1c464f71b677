"""Versions of the judge: which one judged a run, and which of two is newer.

Figures of different versions follow different rules, so no rank or record compares them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.runs.models import Evaluation
from arena.runs.states import SCOPES_COUNTED, Scope
from evaluation.types import Verdict


def judged_by(run_id: str) -> dict[str, Any]:
    """Return the columns of a run that name the judge of its verdict, and whether it is noisy.

    The verdict is the final one; of a run that ended without one, that of its last round.
    """
    judged = Evaluation.objects.filter(submission__run=run_id, scope__in=SCOPES_COUNTED)
    newest = judged.exclude(judge_version="").order_by("-submission__round")
    found = newest.filter(scope=Scope.FINAL).first() or newest.first()
    if found is None:
        return {"judge_version": "", "noisy": False}
    noisy = found.noisy and found.verdict == Verdict.PASSED
    return {"judge_version": found.judge_version, "noisy": noisy}


def age_of(version: str) -> tuple[int, str]:
    """Return a key that orders versions of the judge, the oldest first."""
    return (int(version) if version.isdecimal() else -1, version)


def ages_of(versions: NDArray[Any]) -> NDArray[Any]:
    """Return a number for each of these versions, higher for a newer one."""
    known, numbers = np.unique(versions.astype(str), return_inverse=True)
    ages = np.zeros(len(known), int)
    ages[sorted(range(len(known)), key=lambda n: age_of(str(known[n])))] = np.arange(len(known))
    return np.asarray(ages[numbers])
