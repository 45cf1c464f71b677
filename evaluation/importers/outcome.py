"""Results of an import: what each problem came to, as a table and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FIRST_CLASS, REFUSED = "first-class", "refused"
KINDS = (FIRST_CLASS, REFUSED)
"""Kinds of outcome: judged against the truth in float64, or not imported."""


@dataclass(frozen=True)
class Outcome:
    """The result for one problem."""

    name: str
    path: str
    kind: str
    reason: str = ""
    """Why it was refused."""
    flags: tuple[str, ...] = ()
    fingerprint: str = ""
    written: str = ""
    """`new`, `changed` or `unchanged`; empty for a refused problem."""


@dataclass(frozen=True)
class Import:
    """The results of one suite."""

    suite: str
    title: str
    repository: str
    commit: str
    licence: str
    outcomes: tuple[Outcome, ...]
    unused: tuple[str, ...] = ()
    """Files without effect."""

    def counts(self) -> dict[str, int]:
        """Return the number of outcomes of each kind that occurs."""
        found = Counter(outcome.kind for outcome in self.outcomes)
        return {kind: found[kind] for kind in KINDS if found[kind]}

    def to_json(self) -> dict[str, Any]:
        """Return the table as it is kept: without what depends on the folder written to."""
        return {
            "suite": self.suite,
            "repository": self.repository,
            "commit": self.commit,
            "licence": self.licence,
            "counts": {"problems": len(self.outcomes), **self.counts()},
            "problems": {
                outcome.path: {
                    key: value
                    for key, value in (
                        ("task", outcome.name),
                        ("outcome", outcome.kind),
                        ("reason", outcome.reason),
                        ("flags", list(outcome.flags)),
                        ("fingerprint", outcome.fingerprint),
                    )
                    if value
                }
                for outcome in self.outcomes
            },
        }

    def summary(self) -> str:
        """Return the last lines of the table."""
        counts = ", ".join(f"{count} {kind}" for kind, count in self.counts().items())
        written = Counter(outcome.written for outcome in self.outcomes if outcome.written)
        folders = ", ".join(f"{count} {word}" for word, count in sorted(written.items()))
        lines = [f"{self.title} at {self.commit[:12]}: {counts or 'no problems'}"]
        lines += [f"folders: {folders}"] if folders else []
        lines += [f"without effect: {path}: no problem has its name" for path in self.unused]
        return "\n".join(lines)


def row(outcome: Outcome) -> str:
    """Return one line of the table."""
    remarks = "; ".join(filter(None, [outcome.reason, *outcome.flags]))
    words = [f"{outcome.kind:12}", f"{outcome.written:9}", outcome.name]
    return "  ".join([*words, *([remarks] if remarks else [])]).rstrip()


def duplicates(imports: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return tasks of the same traced operations, by fingerprint, from kept tables."""
    found: dict[str, list[str]] = {}
    for table in imports:
        for problem in table["problems"].values():
            if fingerprint := problem.get("fingerprint"):
                found.setdefault(fingerprint, []).append(f"{table['suite']}/{problem['task']}")
    return {fingerprint: names for fingerprint, names in found.items() if len(names) > 1}
