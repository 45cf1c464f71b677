"""A trace as one file: JSON lines, Markdown, one page of HTML, and the open trajectory format.

A file is a list of texts, made a chunk of the trace at a time. A trace beyond MAX_EVENTS is left to
the client, which reads it in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from arena.errors import Conflict, TooLarge
from arena.runs.models import Run
from arena.runs.trace import retention
from arena.runs.trace.exports import atif, documents

MAX_EVENTS = 10_000
ARCHIVED = "jsonl"
"""The form in which a trace is archived, and the only one that it is read in from there."""


@dataclass(frozen=True)
class Format:
    """Form of an export: its title, type of content, and the texts of a run's file."""

    title: str
    content_type: str
    texts: Callable[[Run], Iterator[str]]


FORMATS = {
    ARCHIVED: Format("JSON lines", "application/x-ndjson", retention.lines),
    "md": Format("Markdown", "text/markdown; charset=utf-8", documents.markdown),
    "html": Format("HTML", "text/html; charset=utf-8", documents.html),
    "atif.json": Format("ATIF", "application/json", atif.trajectory),
}
"""Exports by the ending of the file's name."""


def export(run: Run, form: str) -> str:
    """Return the file of a trace in one of FORMATS. Raises: TooLarge, Conflict."""
    if form != ARCHIVED and hasattr(run, "archive"):
        raise Conflict("The trace of this run is archived.", "Download it as JSON lines.")
    if run.last_seq > MAX_EVENTS:
        raise TooLarge(
            f"The trace has {run.last_seq} events, and a download at most {MAX_EVENTS}.",
            f"Read it in parts: arena download {run.pk}",
        )
    return "".join(FORMATS[form].texts(run))
