"""Names of the tasks of a suite: no two problems have one name."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from evaluation.importers.suites import Problem

MAX_CHARACTERS = 60
DIGITS = 8
"""Digits of the hash of a path, at the end of a name that would not be the only one."""


def distinct(problems: Sequence[Problem]) -> list[Problem]:
    """Return the problems with names in lower case, cut to their limit, each of them once.

    Where several would have one name, each gets the hash of its path, so that no name depends on
    the order of files.
    """
    plain = [_cut(each.name, MAX_CHARACTERS) for each in problems]
    count = Counter(plain)
    return [
        replace(each, name=name if count[name] == 1 else _with_hash(name, each.path))
        for each, name in zip(problems, plain, strict=True)
    ]


def _cut(name: str, limit: int) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:limit].rstrip("_")


def _with_hash(name: str, path: str) -> str:
    digits = hashlib.sha256(path.encode()).hexdigest()[:DIGITS]
    return f"{_cut(name, MAX_CHARACTERS - DIGITS - 1)}_{digits}"
