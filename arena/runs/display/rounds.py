"""Rounds of a run as its pages show them: verdict, speedup, and the best so far."""

from __future__ import annotations

from dataclasses import dataclass

from arena.catalog.models import Task
from arena.catalog.templatetags.figures import times
from arena.runs.display.past import Past
from arena.runs.models import Evaluation, Run, Submission
from arena.runs.scoring.best import best_so_far, free_of
from arena.runs.scoring.hidden import MIN_RETAINED
from arena.runs.states import EvaluationStatus, Scope
from evaluation.types import Verdict


@dataclass(frozen=True)
class Round:
    """One submission with its verdict, and the final verdict of the round that was chosen for it.

    Numbers are of the round's own verdict; the final one measures anew.
    """

    number: int
    submission: Submission
    own: Evaluation | None
    final: Evaluation | None
    speedup: float | None
    low: float | None
    high: float | None
    best: float | None
    """Speedup of the best round so far."""
    best_is_noisy: bool
    is_best: bool

    @property
    def evaluation(self) -> Evaluation | None:
        """Return the final evaluation from its start on, unless it broke; else the round's own."""
        final = self.final
        return final if final and (final.verdict or final.ended_at is None) else self.own

    @property
    def noisy(self) -> bool:
        """Return whether its own verdict has a case whose interval stayed wide."""
        return self.own is not None and self.own.noisy

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


def rounds_of(run: Run, past: Past | None = None) -> list[Round]:
    """Return every round in order, of a past moment those that were submitted by then."""
    found = run.submissions.order_by("round").prefetch_related("evaluations").defer("files")
    submissions = [each for each in found if past is None or each.round in past.rounds]
    verdicts = [_verdicts(submission, past) for submission in submissions]
    rounds = []
    best_after = best_so_far(own for own, _ in verdicts)
    for submission, (own, final), best in zip(submissions, verdicts, best_after, strict=True):
        passed = own if own and own.verdict == Verdict.PASSED else None
        rounds.append(
            Round(
                number=submission.round,
                submission=submission,
                own=own,
                final=final,
                speedup=passed.speedup if passed else None,
                low=passed.low if passed else None,
                high=passed.high if passed else None,
                best=best.speedup if best else None,
                best_is_noisy=best is not None and best.noisy,
                is_best=best is not None and best is own,
            )
        )
    return rounds


def _verdicts(
    submission: Submission, past: Past | None
) -> tuple[Evaluation | None, Evaluation | None]:
    """Return a round's own evaluation, and the final one."""
    by_scope = {evaluation.scope: evaluation for evaluation in submission.evaluations.all()}
    final = by_scope.get(Scope.FINAL)
    own = by_scope.get(Scope.ROUND, final)
    if past is None:
        return own, final
    number = submission.round
    return past.evaluation(own, number), past.evaluation(final, number)


@dataclass(frozen=True)
class RoundCount:
    """Rounds of a run that count against its budget, the budget's or 0, and the free ones."""

    spent: int
    limit: int
    free: int

    @classmethod
    def of(cls, run: Run, inconclusive: int) -> RoundCount:
        free = free_of(run, inconclusive)
        return cls(run.rounds - free, int(run.budget.get("rounds") or 0), free)


def count_of(run: Run, rounds: list[Round]) -> RoundCount:
    """Return how many of these rounds of a run count; those of a past moment are of a past run."""
    own = [each.own for each in rounds if each.own and each.own.scope == Scope.ROUND]
    return RoundCount.of(run, sum(each.verdict == Verdict.INCONCLUSIVE for each in own))


def best_of(rounds: list[Round]) -> Round | None:
    """Return the best round; None if no round passed and was timed."""
    return next((r for r in reversed(rounds) if r.is_best), None)


def difference(rounds: list[Round], task: Task) -> str:
    """Say why the final verdict differs from the round that it judges; empty where it does not."""
    labels = task.kind.labels
    measured = "" if task.kind.one_speedup else " on the public cases"
    quick = f"{labels.round}. The final verdict {labels.final}"
    judged = next((r for r in reversed(rounds) if r.final and r.final.verdict), None)
    if judged is None or judged.final is None or judged.speedup is None:
        return ""
    final, number = judged.final, judged.number
    if final.verdict != Verdict.PASSED:
        why = final.message or final.reason or "no reason was given"
        return f"Round {number} passed {quick}, and is: {final.verdict}. {why}"
    if final.speedup is None:
        return ""
    low, high = final.low or final.speedup, final.high or final.speedup
    if (judged.high is not None and low > judged.high) or (judged.low or 0.0) > high:
        slower = "slower" if final.speedup < judged.speedup else "faster"
        return (
            f"The final verdict measured round {number} again and found it {slower}: "
            f"{final.speedup:.2f}× instead of {judged.speedup:.2f}×{measured}. The "
            "intervals do not overlap, so one of both measurements was disturbed or lucky; only "
            "the final one counts."
        )
    return _held_out_loss(final)


def _held_out_loss(final: Evaluation) -> str:
    """Return by how much a kernel is slower on held-out cases; empty where the intervals meet."""
    public, held_out = final.speedup, final.unseen_speedup
    if public is None or held_out is None:
        return ""
    high = held_out if final.unseen_high is None else final.unseen_high
    if high >= (final.low or public):
        return ""
    text = (
        f"{times(held_out)} on held-out sizes, {times(public)} on public ones; the held-out "
        "figure ranks."
    )
    if held_out >= MIN_RETAINED * public:
        return text
    kept = f"{held_out / public:.0%} of its speedup, less than {MIN_RETAINED:.0%}"
    return f"{text} The kernel retains {kept}, so it is specialised on the public sizes."
