"""Suggestions of tasks for a name that no task has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from arena.catalog.models import Task

MAX_NEAR = 5
MAX_HINT = 3
MAX_NAME = 200
"""Characters of a name that are compared: difflib keeps a number for each."""


def near_tasks(name: str, known: Iterable[str]) -> list[str]:
    """Return the known tasks that a name may stand for, the likeliest first.

    Those of an operator of this name come first, then those that have it in their names. Where
    there is none, they are the most alike ones.
    """
    name, known = name[:MAX_NAME], sorted(known)
    of_operator = [each for each in known if each.startswith(f"{name.partition('/')[0]}/")]
    if "/" in name:
        return difflib.get_close_matches(name, of_operator or known, MAX_NEAR) or of_operator
    named = [each for each in known if name and name in each and each not in of_operator]
    return of_operator + named or difflib.get_close_matches(name, known, MAX_NEAR)


def hint_of(name: str) -> str:
    """Return what to write in place of a name that no task has."""
    slugs = Task.objects.published().values_list("operator__slug", "track")
    near = near_tasks(name, (f"{operator}/{track}" for operator, track in slugs))[:MAX_HINT]
    asked = f"Did you mean {' or '.join(near)}? " if near else ""
    return f"{asked}Tasks are named operator/track, and listed at /tasks/."
