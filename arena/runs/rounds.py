"""The rounds of a run as its page tells them: verdict, speedup, best so far, and what changed."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

from arena.runs.best import best_so_far
from arena.runs.models import Evaluation, Run, Submission
from arena.runs.states import EvaluationStatus, Scope

CONTEXT_LINES = 4
SHOWN_LINES, SHOWN_CHARACTERS = 2_000, 32_000
"""Of one page's files; to highlight a megabyte takes eight seconds."""
COMPARED_LINES, COMPARED_CHARACTERS = 3_000, 200_000
"""Of both sides; what is made to be slow to compare takes the square of its lines."""


@dataclass(frozen=True)
class Round:
    """One submission: what the agent was told of it, and the final evaluation where it was chosen
    for one, which measures anew.
    """

    number: int
    submission: Submission
    own: Evaluation | None
    final: Evaluation | None
    speedup: float | None
    low: float | None
    high: float | None
    best: float | None
    """The best speedup so far: of the round whose interval begins highest."""
    is_best: bool

    @property
    def evaluation(self) -> Evaluation | None:
        """The one that says most: the final one from when it begins, unless it broke."""
        final = self.final
        return final if final and (final.verdict or final.ended_at is None) else self.own

    @property
    def verdict(self) -> str:
        if self.own is None:
            return "queued"
        return self.own.verdict or self.own.status

    @property
    def reason(self) -> str:
        return self.own.reason if self.own else ""

    @property
    def ended(self) -> bool:
        ends = (EvaluationStatus.DONE, EvaluationStatus.BROKEN)
        return self.own is not None and self.own.status in ends


@dataclass(frozen=True)
class Source:
    """A file as a page shows it: escaped and highlighted, classes for colours. `cut` says that it
    is longer, and of a difference that it is too large to be looked for.
    """

    path: str
    html: SafeString
    added: int = 0
    removed: int = 0
    cut: bool = False


def rounds_of(run: Run) -> list[Round]:
    """Every round in order, each with the best speedup up to it."""
    submissions = run.submissions.order_by("round").prefetch_related("evaluations").defer("files")
    verdicts = [_verdicts(submission) for submission in submissions]
    best = list(best_so_far(own for own, _ in verdicts))
    rounds = []
    for at, (submission, (own, final)) in enumerate(zip(submissions, verdicts, strict=True)):
        passed = own if own and own.verdict == "passed" else None
        so_far = best[at]
        rounds.append(
            Round(
                number=submission.round,
                submission=submission,
                own=own,
                final=final,
                speedup=passed.speedup if passed else None,
                low=passed.low if passed else None,
                high=passed.high if passed else None,
                best=so_far.speedup if so_far else None,
                is_best=so_far is not None and so_far is own,
            )
        )
    return rounds


def _verdicts(submission: Submission) -> tuple[Evaluation | None, Evaluation | None]:
    """Return the verdict that the agent got of a round, and the final one."""
    by_scope = {evaluation.scope: evaluation for evaluation in submission.evaluations.all()}
    final = by_scope.get(Scope.FINAL)
    return by_scope.get(Scope.ROUND, final), final


def best_of(rounds: list[Round]) -> Round | None:
    """The round whose interval begins highest, as the final verdict's is chosen; None if none was
    measured.
    """
    return next((r for r in reversed(rounds) if r.is_best), None)


def sources(files: dict[str, str]) -> list[Source]:
    """The files of a submission, highlighted, with numbered lines, as far as a page shows them."""
    found = []
    lines, characters = SHOWN_LINES, SHOWN_CHARACTERS
    for path, text in sorted(files.items()):
        shown = "\n".join(text[: max(characters, 0)].split("\n")[: max(lines, 0)])
        lines -= shown.count("\n") + 1
        characters -= len(shown)
        cut = len(shown) < len(text.rstrip("\n"))
        found.append(Source(path, highlighted(path, shown), cut=cut))
    return found


@lru_cache(maxsize=128)
def highlighted(path: str, text: str) -> SafeString:
    """Return a file as HTML, each line with a linked number such as #rms_norm-cpp-L12.

    Highlighting is slow, so results are cached by path and content.
    """
    try:
        lexer: Any = get_lexer_for_filename(path)
    except ClassNotFound:
        lexer = TextLexer()
    formatter = HtmlFormatter(nowrap=True, classprefix="")
    lines = highlight(text, lexer, formatter).rstrip("\n").split("\n")
    name = re.sub(r"[^\w-]", "-", path)
    numbered = (
        f'<a class="ln" id="{name}-L{n}" href="#{name}-L{n}" tabindex="-1">{n}</a>{line}'
        for n, line in enumerate(lines, start=1)
    )
    return mark_safe("\n".join(numbered))


def changes(before: dict[str, str], after: dict[str, str]) -> list[Source]:
    """What differs between two submissions, a unified diff a file."""
    found = []
    most_lines, most_characters = COMPARED_LINES, COMPARED_CHARACTERS
    for path in sorted({*before, *after}):
        texts = before.get(path, ""), after.get(path, "")
        if texts[0] == texts[1]:
            continue
        old, new = (text.splitlines() for text in texts)
        most_lines -= len(old) + len(new)
        most_characters -= sum(map(len, texts))
        if most_lines < 0 or most_characters < 0:
            found.append(Source(path, mark_safe(""), cut=True))
            continue
        lines = list(
            difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", "", "", CONTEXT_LINES, "")
        )
        if lines:
            added = sum(line.startswith("+") for line in lines[2:])
            removed = sum(line.startswith("-") for line in lines[2:])
            found.append(Source(path, diff_html("\n".join(lines)), added, removed))
    return found


def diff_html(diff: str) -> SafeString:
    """A unified diff, a block a line, each of the class that says what became of it."""
    lines = ((_diff_class(line), line) for line in diff.splitlines())
    return format_html_join("", '<span class="{}">{}</span>', lines)


def _diff_class(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return "gh"
    return {"+": "gi", "-": "gd"}.get(line[:1], "")
