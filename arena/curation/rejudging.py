"""Judging many final verdicts again: chosen by filters, fed to the workers a few at a time.

All that is known of the progress is in the database, so `advance` may be called by any worker at
any time, and goes on where another one was killed.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from arena.accounts.models import User
from arena.audit.services import reason_of, record
from arena.catalog.models import Hardware, Worker
from arena.curation.models import (
    OPEN_ITEMS,
    ItemStatus,
    Rejudging,
    RejudgingItem,
    RejudgingState,
)
from arena.curation.rejudging_filters import Filters, chosen
from arena.errors import Conflict, Forbidden, UserError
from arena.runs import services
from arena.runs.models import Evaluation
from arena.runs.states import EVALUATION_ACTIVE, EVALUATION_WAITING, Scope
from evaluation import JUDGE_VERSION

MAX_VERDICTS = 20_000
MAX_IN_FLIGHT = 2
"""Evaluations of one device at a time: one is built while another is measured."""
BATCH = 1_000


def start(user: User, filters: Filters, reason: str, seen_count: int) -> Rejudging:
    """Judge the verdicts that the filters choose again; `seen_count` is what the user was shown.

    Raises: UserError; Conflict where the filters choose nothing, too much or another number.
    """
    if not user.is_staff:
        raise Forbidden("Only staff have verdicts judged again.")
    reason = reason_of(reason)
    if not reason:
        raise UserError("Judging again needs a reason.", "The audit log shows it.")
    with transaction.atomic():
        found = list(chosen(filters).order_by("pk").values_list("pk", flat=True))
        if not found:
            raise Conflict("No verdict matches these filters.", "Choose others.")
        if len(found) > MAX_VERDICTS:
            raise Conflict(
                f"{len(found)} verdicts match.", f"The limit is {MAX_VERDICTS}: narrow the filters."
            )
        if len(found) != seen_count:
            raise Conflict(
                f"{len(found)} verdicts match now, and {seen_count} did when you opened the page.",
                "Read the estimate again, then start.",
            )
        made = Rejudging.objects.create(
            requested_by=user,
            reason=reason,
            filters=filters.stored(),
            judge_version=JUDGE_VERSION,
        )
        try:
            with transaction.atomic():
                RejudgingItem.objects.bulk_create(
                    (RejudgingItem(rejudging=made, evaluation_id=pk) for pk in found),
                    batch_size=BATCH,
                )
        except IntegrityError:
            raise Conflict(
                "Somebody else has just started to judge some of them again.", "Load the page."
            ) from None
        record(user, "rejudging.start", made, reason, verdicts=len(found), **filters.stored())
    advance()
    return made


def cancel(rejudging: Rejudging, user: User) -> None:
    """Stop a re-judging; verdicts that were replaced stay replaced. Raises Forbidden, Conflict."""
    if not user.is_staff:
        raise Forbidden("Only staff cancel a re-judging.")
    with transaction.atomic():
        running = Rejudging.objects.filter(pk=rejudging.pk, state=RejudgingState.RUNNING)
        if not running.update(state=RejudgingState.CANCELLED, ended_at=timezone.now()):
            raise Conflict("This re-judging has ended.")
        count = _stop(rejudging)
        record(user, "rejudging.cancel", rejudging, f"{count} verdicts were left as they are.")
    rejudging.refresh_from_db()


def advance() -> int:
    """Settle what has ended, give free devices the next verdicts, and return their number."""
    unsettled = Exists(
        RejudgingItem.objects.filter(rejudging=OuterRef("pk"), status__in=OPEN_ITEMS)
    )
    count = 0
    for rejudging in Rejudging.objects.filter(unsettled).order_by("pk"):
        if not rejudging.active:  # a worker started one while it was cancelled
            _stop(rejudging)
            continue
        _settle(rejudging)
        count += _feed(rejudging)
    running = Rejudging.objects.filter(~unsettled, state=RejudgingState.RUNNING)
    running.update(state=RejudgingState.ENDED, ended_at=timezone.now())
    return count


def _stop(rejudging: Rejudging) -> int:
    """Leave the verdicts that were not judged again as they are, and return their number."""
    waiting = rejudging.items.filter(status=ItemStatus.WAITING)
    count = waiting.update(status=ItemStatus.CANCELLED, ended_at=timezone.now())
    started = rejudging.items.filter(status=ItemStatus.JUDGING).exclude(replacement=None)
    count += services.cancel_rejudging(list(started.values_list("replacement", flat=True)))
    _settle(rejudging)
    return count


def _settle(rejudging: Rejudging) -> None:
    """Store what became of evaluations that have ended."""
    judging = rejudging.items.filter(status=ItemStatus.JUDGING)
    for item in judging.select_related("replacement"):
        new = item.replacement
        if new is not None and new.status in EVALUATION_ACTIVE:
            continue
        replaced = new is not None and new.replaces
        why = new.message or new.reason if new else "The new evaluation is gone."
        judging.filter(pk=item.pk).update(
            status=ItemStatus.REPLACED if replaced else ItemStatus.KEPT,
            message="" if replaced else why,
            ended_at=timezone.now(),
        )


def _feed(rejudging: Rejudging) -> int:
    """Start the next evaluations on devices that nothing else waits for."""
    waiting = rejudging.items.filter(status=ItemStatus.WAITING)
    served = Worker.objects.queues()
    count = 0
    for hardware in _devices_of(waiting):
        if hardware.queue in served:
            of_device = waiting.filter(evaluation__hardware=hardware).order_by("pk")
            count += _started(of_device[: _free(hardware)])
    return count


def unserved_devices(rejudging: Rejudging) -> list[Hardware]:
    """Return the devices that verdicts wait for and that no live worker has."""
    served = Worker.objects.queues()
    devices = _devices_of(rejudging.items.filter(status__in=OPEN_ITEMS))
    return [hardware for hardware in devices if hardware.queue not in served]


def _devices_of(items: QuerySet[RejudgingItem]) -> QuerySet[Hardware]:
    devices = items.order_by().values_list("evaluation__hardware", flat=True).distinct()
    return Hardware.objects.filter(pk__in=list(devices))


def _free(hardware: Hardware) -> int:
    """Return how many evaluations a device takes now; none while verdicts of runs wait for it."""
    of_device = Evaluation.objects.filter(hardware=hardware)
    others = of_device.exclude(scope=Scope.REJUDGE).filter(status__in=EVALUATION_WAITING)
    if others.exists():
        return 0
    active = of_device.filter(scope=Scope.REJUDGE, status__in=EVALUATION_ACTIVE)
    return max(0, MAX_IN_FLIGHT - active.count())


def _started(items: Iterable[RejudgingItem]) -> int:
    """Start those of the items that no other worker has started meanwhile."""
    count = 0
    for item in items:
        mine = RejudgingItem.objects.filter(
            pk=item.pk, status=ItemStatus.WAITING, rejudging__state=RejudgingState.RUNNING
        )
        with transaction.atomic():
            if not mine.update(status=ItemStatus.JUDGING):
                continue
            final = Evaluation.objects.select_related(
                "submission__run__task_version__task__operator"
            ).get(pk=item.evaluation_id)
            of_item = RejudgingItem.objects.filter(pk=item.pk)
            try:
                new = services.request_rejudging(final)
            except UserError as error:
                of_item.update(status=ItemStatus.KEPT, message=error.text, ended_at=timezone.now())
            else:
                of_item.update(replacement=new)
                count += 1
    return count
