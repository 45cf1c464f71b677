"""Suites: one module for each, with `SUITE`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from evaluation.importers.checkout import Checkout


@dataclass(frozen=True)
class Problem:
    """One problem of a suite: the name of its task, and the file that defines it.

    A suite gives any name; `importers.names` makes it one that no other problem has.
    """

    name: str
    path: str
    title: str
    level: int
    category: str
    cases: str = ""
    """Path of the file that gives its cases; empty where the file itself does."""


@dataclass(frozen=True)
class Suite:
    """A public suite of kernel problems."""

    slug: str
    title: str
    repository: str
    form: str
    """The module in `importers.sandboxed.forms` that reads its problems."""
    score: str
    """The suite's own score, in a few words."""
    problems: Callable[[Checkout], Sequence[Problem]]
    judged: Callable[[str], str] = str
    """Returns the part of a file that the judge runs, without the suite's tests."""
    unused: Callable[[Checkout], Sequence[str]] = lambda _: ()
    """Returns the files of a checkout that look like a problem's and have no effect."""
    precision: str = "ieee"
    """The rule by which its problems in float32 are judged."""
    tolerance: float = 0.0
    """The absolute and relative error that its check allows in float32; 0 for another rule."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Categories that are refused, with the reason."""


def suites() -> dict[str, Suite]:
    """Return all suites by slug."""
    found = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        suite: Suite = importlib.import_module(f"{__name__}.{module.name}").SUITE
        found[suite.slug] = suite
    return found
