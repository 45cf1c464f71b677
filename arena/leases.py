"""Leases: a worker that has claimed a row keeps it while it renews its lease.

A worker that stops answering loses it, and the row waits again. So nothing is lost when one dies.
A row that waits has a message in a queue. A claim succeeds once, so a doubled message does nothing.

Heartbeats are written and compared by the clock of the database, which all machines share: the
clock of one machine ends nobody's work.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self, TypeVar

from django.db import OperationalError, connection, models, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from arena import queue

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=30)
"""Time after which a worker is silent."""
MESSAGE_GRACE = timedelta(seconds=20)
"""Time after which a message that nobody has taken is sent again."""
MAX_ATTEMPTS = 2
"""Attempts that end by a fault of the judge."""
MAX_INTERRUPTIONS = 10
"""Attempts that a stop, a lost machine or a lost database ends, which is nobody's fault."""
SILENT = "Its worker stopped answering."
QUEUE_HEAD = 32
"""Messages of one queue that are sent again at a time, more than a worker has threads."""
QUEUED, RUNNING = "queued", "running"
ACTIVE = (QUEUED, RUNNING)
Row = TypeVar("Row", bound="Leased")


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


def is_limited() -> bool:
    """Return whether this process has the role of a worker, which leaves reaping to others."""
    if connection.vendor != "postgresql":
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT NOT has_table_privilege('runs_run', 'DELETE')")
        return bool(cursor.fetchone()[0])


class LeasedQuerySet(models.QuerySet[Row]):
    """Rows with a `status`, by which they wait for a worker, are held by one, or have ended."""

    def active(self) -> Self:
        return self.filter(status__in=self.model.WAITING + self.model.HELD)

    def claim(self, pk: Any, lease: str, takes: str = QUEUED, holds: str = RUNNING) -> bool:
        """Move a waiting row from state `takes` to `holds`; False where it is not in that state.

        Its state is a condition on the row that is updated, not on a join: of two claims at once,
        the second waits for the row, reads it again, and does not win.
        """
        first = self.model.ATTEMPT if takes == QUEUED else {}
        claimed = {"status": holds, "lease": lease, "heartbeat_at": Now(), **first}
        return bool(self.filter(pk=pk, status=takes).update(**claimed))

    def held(self, pk: Any, lease: str) -> Self:
        """Return the row that this lease holds, if it does."""
        return self.filter(pk=pk, lease=lease, status__in=self.model.HELD)

    def held_on(self, machine: str) -> Self:
        """Return the rows that the workers of a machine hold."""
        return self.filter(lease__startswith=f"{machine}:", status__in=self.model.HELD)

    def renew(self, pk: Any, lease: str) -> bool:
        """Renew a lease; return False if it is lost."""
        return bool(self.held(pk, lease).update(heartbeat_at=Now()))

    def release(self, pk: Any, lease: str, status: str, **values: Any) -> bool:
        """Let a row wait for its next worker; return False if the lease is lost."""
        waiting = {"status": status, "lease": "", "heartbeat_at": Now()}
        return bool(self.held(pk, lease).update(**waiting, **values))

    def end(self, pk: Any, lease: str, status: str, **values: Any) -> bool:
        """End the work on a row with its result; return False if the lease is lost.

        The row keeps its lease, which names the machine that did the work.
        """
        ended = {"status": status, "ended_at": Now()}
        return bool(self.held(pk, lease).update(**ended, **values))

    def silent(self, lease: timedelta) -> Self:
        """Return the rows whose workers have not renewed a lease for so long."""
        return self.filter(status__in=self.model.HELD, heartbeat_at__lt=Now() - lease)

    def reap(self, end: Callable[[Row], bool], lease: timedelta = LEASE) -> int:
        """Call `end` for each row whose worker is silent, and return how often it was true.

        An error is logged, and does not keep the other rows from their end.
        """
        count = 0
        for row in self.silent(lease):
            try:
                count += end(row)
            except OperationalError:  # the database is away or busy: all of it is tried again
                raise
            except Exception:
                logger.exception("%s %s was not ended", row._meta.verbose_name, row.pk)
        return count

    def send_again(self, name: str) -> int:
        """Send the messages of rows that wait in the queue `name` again, and return their number.

        Only those that nobody has claimed for MESSAGE_GRACE. Nothing tells whether the message of a
        row is lost or still in the queue. So the queue never gets more messages than rows wait.
        """
        waiting = self.filter(status__in=self.model.WAITING)
        number = min(waiting.count() - queue.length(name), QUEUE_HEAD)
        late = {"heartbeat_at__lt": Now() - MESSAGE_GRACE}
        count = 0
        for row in waiting.filter(**late)[: max(0, number)]:
            unclaimed = self.model._default_manager.filter(pk=row.pk, status=row.status, **late)
            if unclaimed.update(heartbeat_at=Now()):  # else another worker was first
                queue.enqueue(*row.queue_message)
                count += 1
        return count


class Leased(models.Model):
    """Columns of a row that workers claim; its `status` is declared beside its other states."""

    WAITING: ClassVar[tuple[str, ...]] = (QUEUED,)
    HELD: ClassVar[tuple[str, ...]] = (RUNNING,)
    ATTEMPT: ClassVar[Mapping[str, Any]] = {"started_at": Now()}
    """Changes of a queued row that is claimed."""

    status: Any
    lease = models.CharField(max_length=100, blank=True)
    heartbeat_at = models.DateTimeField(db_default=Now())
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True

    @property
    def queue_message(self) -> tuple[Any, ...]:
        """Return the actor, the queue and the arguments of the message that a worker takes."""
        raise NotImplementedError


class Retried(Leased):
    """Columns of a row that waits again after an attempt that broke or was interrupted."""

    ATTEMPT = {**Leased.ATTEMPT, "attempts": F("attempts") + 1}

    attempts = models.PositiveIntegerField(default=0)
    interruptions = models.PositiveIntegerField(default=0)
    """Attempts that were ended by a stop, a lost machine or a lost database."""
    broken_on = models.CharField(max_length=100, blank=True)
    """Machine of the last attempt, if that broke or was interrupted."""

    class Meta:
        abstract = True

    @property
    def active(self) -> bool:
        """Return whether it waits for a worker, or is held by one."""
        return self.status in self.WAITING + self.HELD

    def is_tried_again(self, interrupted: bool) -> bool:
        """Return whether there is another attempt after one that was interrupted, or broke."""
        if interrupted:
            return self.interruptions < MAX_INTERRUPTIONS
        return self.attempts - self.interruptions < MAX_ATTEMPTS

    def put_back(self, lease: str, interrupted: bool, **values: Any) -> bool:
        """Let the row wait for another attempt; return False if the lease is lost."""
        counted = {"interruptions": F("interruptions") + 1} if interrupted else {}
        values |= {"broken_on": machine_of(lease), **counted}
        rows: Any = type(self)._default_manager
        with transaction.atomic():
            if not rows.release(self.pk, lease, QUEUED, **values):
                return False
            self.status = QUEUED
            queue.enqueue(*self.queue_message)
        return True
