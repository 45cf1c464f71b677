"""Entering a run in a contest, and the final verdicts of its entries."""

from __future__ import annotations

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from arena.accounts.models import User
from arena.accounts.names import normal, resembles_any
from arena.contests.models import Contest, Entry
from arena.errors import Conflict, Invalid, NotFound
from arena.runs.models import Evaluation, Run
from arena.runs.querysets import RunQuerySet
from arena.runs.services.rejudging import request_rejudging
from arena.runs.states import RunStatus, Scope
from evaluation.types import Verdict

MAX_TEAM = 60


def eligible(contest: Contest, user: User) -> RunQuerySet:
    """Return the runs of a user that may be entered: passed, of its task, device and time.

    The final submission must have passed with a final verdict. A kernel with the verdict of a round
    alone has none that could be judged again after the deadline.
    """
    runs = Run.objects.without_quarantined().filter(
        owner=user,
        status=RunStatus.PASSED,
        final__evaluations__scope=Scope.FINAL,
        final__evaluations__verdict=Verdict.PASSED,
        task_version__task=contest.task,
        hardware=contest.hardware,
        created_at__gte=contest.starts_at,
        agent__open_book=False,
    )
    entered = Entry.objects.filter(contest=contest).values("run")
    return runs.exclude(pk__in=entered).order_by("-created_at")


def enter(contest: Contest, user: User, run_id: str, team: str) -> Entry:
    """Enter a run, for a person or a team; it takes the place of an earlier entry.

    An entry after the deadline is kept apart as late. A team enters through one person, whose first
    entry gives it the name.

    Raises: Conflict before the start, and for a name like that of another team or user. NotFound
    for a run that may not be entered. Invalid for a name that is too long or cannot be shown.
    """
    if not contest.has_started():
        raise Conflict(f"{contest.title} has not started.")
    with transaction.atomic():
        Contest.objects.select_for_update().get(pk=contest.pk)  # one after another
        run = eligible(contest, user).filter(pk=run_id).first()
        if run is None or run.speedup is None:
            raise NotFound(
                f"No run {run_id} of yours may be entered.",
                "It must have passed with a final verdict, not that of a round alone, "
                "on the contest's task and hardware, since its start.",
            )
        entries = Entry.objects.filter(contest=contest)
        earlier = entries.filter(owner=user).first()
        name = earlier.team if earlier else _name_of(user, team, entries.exclude(owner=user))
        low, high = run.low or run.speedup, run.high or run.speedup
        return Entry.objects.create(
            contest=contest, owner=user, team=name, run=run,
            speedup=run.speedup, low=low, high=high,
        )  # fmt: skip


def _name_of(user: User, team: str, others: QuerySet[Entry]) -> str:
    """Return the name of a team, by default that of its user. Raises: Conflict, Invalid."""
    name = normal(" ".join(team.split())) or user.get_username()
    if len(name) > MAX_TEAM:
        raise Invalid(f"A name has at most {MAX_TEAM} characters.")
    if resembles_any(name, others.values_list("team", flat=True)):
        raise Conflict(f"{name} is entered by another person.", "Choose another name.")
    users = User.objects.exclude(pk=user.pk).values_list("username", flat=True)
    if name != user.get_username() and resembles_any(name, users):
        raise Conflict(f"{name} is the name of another user.", "Choose another name.")
    return name


def rename_own(user: User, before: str) -> int:
    """Give the entries of a renamed user named `before` the new name; return their number.

    A team keeps the name that it chose.
    """
    own = Entry.objects.filter(owner=user, team__iexact=before)
    return own.update(team=user.get_username())


def admissible() -> QuerySet[Entry]:
    """Return the entries that contests show, of all contests.

    Those whose run or agent is in quarantine, or whose agent had a reference solution, are left
    out, also when that was found after they were entered.
    """
    return Entry.objects.filter(
        run__quarantined_at=None, run__agent__quarantined_at=None, run__agent__open_book=False
    )


def counting(contest: Contest) -> list[Entry]:
    """Return the entry of each person that counts: the newest admissible before the deadline.

    Where the final verdict of an earlier one was requested, that one counts still.
    """
    on_time = admissible().filter(contest=contest, entered_at__lte=contest.ends_at)
    found = sorted(
        on_time.select_related("contest", "run", "final", "owner"),
        key=lambda each: each.final_id is not None,
    )  # stable: the newest is the last, those with a final verdict after the others
    return list({entry.team: entry for entry in found}.values())


def request_finals() -> int:
    """Request the final verdicts of the contests whose deadline is over, and return their number.

    They are measured on hidden cases that are drawn anew, so no earlier verdict tells their result.
    """
    ended = Contest.objects.filter(ends_at__lt=timezone.now(), finals_requested_at=None)
    count = 0
    for contest in ended:
        with transaction.atomic():
            if not ended.filter(pk=contest.pk).update(finals_requested_at=timezone.now()):
                continue  # another worker does it
            for entry in counting(contest):
                entry.final = _requested(entry)
                entry.save(update_fields=["final"])
                count += entry.final is not None
    return count


def _requested(entry: Entry) -> Evaluation | None:
    """Return the requested verdict; None where the run has none that could be replaced."""
    before = Evaluation.objects.filter(submission=entry.run.final_id, scope=Scope.FINAL).first()
    try:
        return request_rejudging(before) if before else None
    except Conflict:  # its task is gone
        return None
