"""Origins of imported operators, as `[source]` in `task.toml` states them."""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.tasks.toml_reader import Table

CONSTANT = "the outputs are the same for all inputs, so a constant is right"
"""Flag of a problem whose suite accepts answers that read no input."""


@dataclass(frozen=True)
class Source:
    """A problem of a public suite: the file, its commit and its licence."""

    suite: str
    title: str
    repository: str
    commit: str
    path: str
    sha256: str
    licence: str
    form: str
    version: int
    score: str
    """The suite's own score, in a few words."""
    flags: tuple[str, ...] = ()
    fingerprint: str = ""
    """A hash of the traced operations, which equal computations share."""
    tolerance: float = 0.0
    """The absolute and relative error that the suite's check allows in float32; 0 if unknown."""


def read_source(table: Table) -> Source | None:
    """Return the origin of an imported operator; None for one of this project.

    Raises: TaskError.
    """
    if not table.has("source"):
        return None
    item = table.table("source")
    words = ("suite", "title", "repository", "commit", "path", "sha256", "licence", "form", "score")
    source = Source(
        **{name: item.string(name) for name in words},
        version=item.integer("version"),
        flags=tuple(map(str, item.items("flags", "strings", least=0))),
        fingerprint=item.string("fingerprint"),
        tolerance=item.positive("tolerance") if item.has("tolerance") else 0.0,
    )
    item.finish()
    return source
