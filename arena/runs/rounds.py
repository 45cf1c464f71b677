"""The rounds of a run as its page tells them: verdict, speedup, best so far, and what changed."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

from arena.runs.models import Evaluation, Run, Submission
from arena.runs.states import EvaluationStatus, Scope

CONTEXT_LINES = 4


@dataclass(frozen=True)
class Round:
    """One submission, and the evaluation that says most about it."""

    number: int
    submission: Submission
    evaluation: Evaluation | None
    speedup: float | None
    low: float | None
    high: float | None
    best: float | None
    is_best: bool
    is_final: bool

    @property
    def verdict(self) -> str:
        if self.evaluation is None:
            return "queued"
        return self.evaluation.verdict or self.evaluation.status

    @property
    def reason(self) -> str:
        return self.evaluation.reason if self.evaluation else ""

    @property
    def ended(self) -> bool:
        ends = (EvaluationStatus.DONE, EvaluationStatus.BROKEN)
        return self.evaluation is not None and self.evaluation.status in ends


@dataclass(frozen=True)
class Source:
    """A file as a page shows it: escaped and highlighted, classes for colours."""

    path: str
    html: SafeString
    added: int = 0
    removed: int = 0


def rounds_of(run: Run) -> list[Round]:
    """Every round in order, each with the best speedup up to it."""
    rounds: list[Round] = []
    best: float | None = None
    submissions = run.submissions.order_by("round").prefetch_related("evaluations")
    for submission in submissions.defer("files"):
        evaluation = _telling(list(submission.evaluations.all()))
        passed = evaluation is not None and evaluation.verdict == "passed"
        speedup = evaluation.speedup if evaluation and passed else None
        improved = speedup is not None and (best is None or speedup > best)
        best = speedup if improved else best
        rounds.append(
            Round(
                number=submission.round,
                submission=submission,
                evaluation=evaluation,
                speedup=speedup,
                low=evaluation.low if evaluation and passed else None,
                high=evaluation.high if evaluation and passed else None,
                best=best,
                is_best=improved,
                is_final=submission.pk == run.final_id,
            )
        )
    return rounds


def best_of(rounds: list[Round]) -> Round | None:
    """The round with the highest speedup; None if none was measured."""
    measured = [r for r in rounds if r.speedup is not None]
    return max(measured, key=lambda r: r.speedup or 0.0, default=None)


def sources(files: dict[str, str]) -> list[Source]:
    """The files of a submission, highlighted, with numbered lines."""
    return [Source(path, highlighted(path, text)) for path, text in sorted(files.items())]


def highlighted(path: str, text: str) -> SafeString:
    try:
        lexer: Any = get_lexer_for_filename(path)
    except ClassNotFound:
        lexer = TextLexer()
    formatter = HtmlFormatter(nowrap=True, classprefix="")
    lines = highlight(text, lexer, formatter).rstrip("\n").split("\n")
    numbered = (f'<span class="ln">{n}</span>{line}' for n, line in enumerate(lines, start=1))
    return mark_safe("\n".join(numbered))


def changes(before: dict[str, str], after: dict[str, str]) -> list[Source]:
    """What differs between two submissions, a unified diff a file."""
    found = []
    for path in sorted({*before, *after}):
        old, new = before.get(path, "").splitlines(), after.get(path, "").splitlines()
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


def _telling(evaluations: list[Evaluation]) -> Evaluation | None:
    """The final evaluation if there is one with a verdict, else the round's own."""
    by_scope = {evaluation.scope: evaluation for evaluation in evaluations}
    final, own = by_scope.get(Scope.FINAL), by_scope.get(Scope.ROUND)
    return final if final and (final.verdict or own is None) else own
