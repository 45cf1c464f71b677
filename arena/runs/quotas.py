"""Limits of a user: work at a time, and work in a day.

A day is the last 24 hours. What ended by a fault of the arena or of a provider is not counted, so
that it is refunded without any bookkeeping.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, Sum
from django.utils import timezone

from arena.accounts.models import User
from arena.catalog.models import DIRECT, EXTERNAL
from arena.errors import QuotaExceeded, TooLarge
from arena.runs.models import Evaluation, Run
from arena.runs.querysets import RunQuerySet
from arena.runs.states import RUN_ACTIVE, Fault, RunStatus, Scope

DAY = timedelta(days=1)
REFUNDED = Q(status=RunStatus.BROKEN, fault__in=(Fault.ARENA, Fault.PROVIDER))
RUNS, KERNELS, FINALS = "runs", "kernels", "finals"


@dataclass(frozen=True)
class Quota:
    """A limit on one kind of work in a day, and what counts against it."""

    kind: str
    title: str
    used: int
    limit: int
    refunded: int

    @property
    def left(self) -> int:
        return max(0, self.limit - self.used)


def lock_owner(owner: User | None) -> None:
    """Let one transaction at a time count the work of a user and add to it.

    It must be the first statement of the transaction. New rows of others may refer to the user.
    """
    if owner is not None:
        User.objects.select_for_update(no_key=True).get(pk=owner.pk)


def quotas_of(user: User) -> list[Quota]:
    """Return the quotas of a user; staff have none."""
    return [] if user.is_staff else [quota_of(user, kind) for kind in (RUNS, KERNELS, FINALS)]


def quota_of(user: User, kind: str) -> Quota:
    """Return what is used and refunded of one quota."""
    lately = Run.objects.filter(owner=user, created_at__gt=timezone.now() - DAY)
    title, limit, counted = {
        RUNS: ("Runs of agents", _limit(user.daily_runs, "MAX_DAILY_RUNS"), lately.of_agents()),
        KERNELS: (
            "Kernels submitted",
            _limit(user.daily_kernels, "MAX_DAILY_SUBMISSIONS"),
            lately.direct(),
        ),
        FINALS: (
            "Kernels and own agents with a final verdict",
            _limit(user.daily_finals, "MAX_DAILY_FINALS"),
            _with_final(lately),
        ),
    }[kind]
    used = counted.exclude(REFUNDED)
    return Quota(kind, title, used.count(), limit, counted.filter(REFUNDED).count())


def check_trace(user: User | None, more: int) -> None:
    """Raise TooLarge for events of more bytes than the runs of a user may send today.

    A run that was cancelled counts, or a user could fill the disk by starting and cancelling runs.
    """
    if user is None or user.is_staff:
        return
    lately = Run.objects.filter(owner=user, created_at__gt=timezone.now() - DAY)
    received = lately.aggregate(bytes=Sum("received_bytes"))["bytes"] or 0
    if received + more > settings.MAX_DAILY_TRACE_MIB << 20:
        raise TooLarge(
            f"Your runs sent {received >> 20} MiB of events in the last 24 hours,"
            f" of {settings.MAX_DAILY_TRACE_MIB} allowed.",
            "Finish the run, or go on without events.",
        )


def check_day(user: User | None, kind: str, more: int = 1) -> None:
    """Raise QuotaExceeded for more work than the user has left today; staff have no limit."""
    if user is None or user.is_staff:
        return
    quota = quota_of(user, kind)
    if quota.used + more <= quota.limit:
        return
    raise QuotaExceeded(
        f"{quota.title}: {quota.used} in the last 24 hours, of {quota.limit} allowed.",
        "Wait until the oldest is a day old, or ask an admin for more.",
    )


def _limit(own: int | None, setting: str) -> int:
    return int(getattr(settings, setting)) if own is None else own


def _with_final(runs: RunQuerySet) -> RunQuerySet:
    """Return the runs of a user's own work that have a final verdict, or will get one.

    An external run gets its final verdict when its work ends, so an active one counts already.
    """
    final = Exists(Evaluation.objects.filter(submission__run=OuterRef("pk"), scope=Scope.FINAL))
    will_get_one = Q(agent__adapter=EXTERNAL, status__in=RUN_ACTIVE)
    own = runs.filter(agent__adapter__in=(DIRECT, EXTERNAL))
    return own.filter(final | will_get_one)
