"""Leases: a worker that has claimed a row keeps it while it renews its lease.

A worker that stops answering loses it, and the row waits again. So nothing is lost when one dies.

Heartbeats are written and compared by the clock of the database, which all machines share: the
clock of one machine ends nobody's work.
"""

from __future__ import annotations

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
SILENT = "Its worker stopped answering."
QUEUED, RUNNING = "queued", "running"
ACTIVE = (QUEUED, RUNNING)


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

    def queue_again(self, pk: int, lease: str, **values: Any) -> bool:
        """Let a row wait again; return False if the lease is lost."""
        return bool(self.held(pk, lease).update(status=QUEUED, lease="", **values))

    def silent(self) -> Self:
        """Return the rows whose workers are silent."""
        return self.filter(status=RUNNING, heartbeat_at__lt=Now() - LEASE)

    def unclaimed(self) -> Self:
        """Return the rows whose messages are to be sent again."""
        return self.filter(status=QUEUED, heartbeat_at__lt=Now() - MESSAGE_GRACE)

    def sends_again(self, row: Leased) -> bool:
        """Note that a row's message is sent again; return False where another worker was first."""
        same = self.filter(pk=row.pk, status=QUEUED, heartbeat_at=row.heartbeat_at)
        return bool(same.update(heartbeat_at=Now()))


class Leased(models.Model):
    """Columns of a row that workers claim; its `status` is declared beside its other states."""

    attempts = models.PositiveIntegerField(default=0)
    lease = models.CharField(max_length=100, blank=True)
    heartbeat_at = models.DateTimeField(db_default=Now())
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True
