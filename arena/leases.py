"""Leases: a worker that has claimed a row keeps it while it renews its lease.

A worker that stops answering loses it, and the row waits again. So nothing is lost when one dies.

Heartbeats are written and compared by the clock of the database, which all machines share: the
clock of one machine ends nobody's work.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any, Self

from django.db import connection, models
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

LEASE = timedelta(seconds=30)
"""Time after which a worker is silent."""
MESSAGE_GRACE = timedelta(seconds=20)
"""Time after which a message that nobody has taken is sent again."""
MAX_ATTEMPTS = 2
"""Attempts that end by a fault of the judge."""
MAX_INTERRUPTIONS = 10
"""Attempts that a stop, a lost machine or a lost database ends, which is nobody's fault."""
SILENT = "Its worker stopped answering."
QUEUED, RUNNING = "queued", "running"
ACTIVE = (QUEUED, RUNNING)


def machine_of(name: str) -> str:
    """Return the machine in the name of a lease or of a worker."""
    return re.split("[:/]", name, maxsplit=1)[0]


def database_time() -> datetime:
    """Return the time by the clock of the database; SQLite has that of its machine."""
    if connection.vendor != "postgresql":
        return timezone.now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        found: datetime = cursor.fetchone()[0]
    return found


class LeasedQuerySet(models.QuerySet[Any]):
    """Rows with a `status` that is QUEUED, RUNNING, or one of those in which the work has ended."""

    def active(self) -> Self:
        return self.filter(status__in=ACTIVE)

    def claim(self, pk: int, lease: str) -> bool:
        """Claim a queued row; return False where it is not queued."""
        return bool(
            self.filter(pk=pk, status=QUEUED).update(
                status=RUNNING,
                lease=lease,
                heartbeat_at=Now(),
                started_at=Now(),
                attempts=F("attempts") + 1,
            )
        )

    def held(self, pk: int, lease: str) -> Self:
        """Return the row that this lease holds, if it does."""
        return self.filter(pk=pk, lease=lease, status=RUNNING)

    def renew(self, pk: int, lease: str) -> bool:
        """Renew a lease; return False if it is lost."""
        return bool(self.held(pk, lease).update(heartbeat_at=Now()))

    def end(self, pk: int, lease: str, status: str, **values: Any) -> bool:
        """End the work on a row with its result; return False if the lease is lost."""
        ended = {"status": status, "lease": "", "ended_at": Now()}
        return bool(self.held(pk, lease).update(**ended, **values))

    def queue_again(self, pk: int, lease: str, interrupted: bool, **values: Any) -> bool:
        """Let a row wait again; return False if the lease is lost."""
        again = {"status": QUEUED, "lease": "", **after_attempt(lease, interrupted)}
        return bool(self.held(pk, lease).update(**again, **values))

    def silent(self) -> Self:
        """Return the rows whose workers are silent."""
        return self.filter(status=RUNNING, heartbeat_at__lt=Now() - LEASE)

    def unclaimed(self) -> Self:
        """Return the rows whose messages are to be sent again."""
        return self.filter(status=QUEUED, heartbeat_at__lt=Now() - MESSAGE_GRACE)

    def sends_again(self, row: Leased) -> bool:
        """Note that a row's message is sent again; return False where another worker was first."""
        return bool(self.unclaimed().filter(pk=row.pk).update(heartbeat_at=Now()))


class Leased(models.Model):
    """Columns of a row that workers claim; its `status` is declared beside its other states."""

    attempts = models.PositiveIntegerField(default=0)
    interruptions = models.PositiveIntegerField(default=0)
    """Attempts that were ended by a stop, a lost machine or a lost database."""
    lease = models.CharField(max_length=100, blank=True)
    broken_on = models.CharField(max_length=100, blank=True)
    """Machine of the last attempt, if that broke or was interrupted."""
    heartbeat_at = models.DateTimeField(db_default=Now())
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True

    def is_tried_again(self, interrupted: bool) -> bool:
        """Return whether there is another attempt after one that was interrupted, or broke."""
        if interrupted:
            return self.interruptions < MAX_INTERRUPTIONS
        return self.attempts - self.interruptions < MAX_ATTEMPTS


def after_attempt(lease: str, interrupted: bool) -> dict[str, Any]:
    """Return the changes of a row that waits again after the attempt that held `lease`."""
    counted = {"interruptions": F("interruptions") + 1} if interrupted else {}
    return {"broken_on": machine_of(lease), **counted}
