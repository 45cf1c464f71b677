"""Context of the templates that list notes and add one."""

from __future__ import annotations

from typing import Any

from arena.accounts.models import Viewer
from arena.notes.models import MAX_QUOTE, MAX_TEXT, Mark
from arena.runs.models import Run


def notes_of(run: Run, viewer: Viewer, seq: int | None = None) -> dict[str, Any]:
    """Return the notes on a run, or on its event `seq` alone, and what their form needs."""
    notes = run.notes.visible_to(viewer).select_related("author", "run")
    return {
        "notes": list(notes.filter(seq=seq) if seq is not None else notes),
        "marks": Mark.choices,
        "max_quote": MAX_QUOTE,
        "max_text": MAX_TEXT,
        "seq": seq,
    }
