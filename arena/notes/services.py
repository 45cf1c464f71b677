"""Changes of notes: every reader writes notes on runs that they see, and removes their own."""

from __future__ import annotations

from arena.accounts.models import User
from arena.errors import Conflict, Invalid, NotFound
from arena.notes.models import MAX_QUOTE, MAX_TEXT, Mark, Note
from arena.runs.models import Run
from arena.text import repaired

MAX_NOTES_A_RUN = 100
"""Of one author."""


def mark(
    run: Run, author: User, mark: str, *, seq: int | None = None, quote: str = "", text: str = ""
) -> Note:
    """Add a note to a run, or to its event `seq`.

    Raises: Invalid, with a message for each bad field; Conflict for too many notes.
    """
    quote, text = repaired(quote).strip(), repaired(text).strip()
    bad = {}
    if mark not in Mark.values:
        bad["mark"] = f"A mark is one of {', '.join(Mark.values)}."
    if seq is not None and not run.events.filter(seq=seq).exists():
        bad["seq"] = f"The run has no event {seq}."
    for name, value, limit in (("quote", quote, MAX_QUOTE), ("text", text, MAX_TEXT)):
        if len(value) > limit:
            bad[name] = f"A {name} has {limit} characters at most."
    if bad:
        raise Invalid(" ".join(bad.values()), fields=bad)
    if run.notes.filter(author=author).count() >= MAX_NOTES_A_RUN:
        raise Conflict(f"You have {MAX_NOTES_A_RUN} notes on this run.", "Remove some first.")
    return Note.objects.create(
        run=run, seq=seq, mark=mark, quote=quote, text=text, author=author,
        by_staff=author.is_staff,
    )  # fmt: skip


def remove(run: Run, note_id: int, user: User) -> None:
    """Remove a note of the user; staff may remove any. Raises: NotFound."""
    notes = run.notes.all() if user.is_staff else run.notes.filter(author=user)
    deleted, _ = notes.filter(pk=note_id).delete()
    if not deleted:
        raise NotFound("You have no such note on this run.")
