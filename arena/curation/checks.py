"""All writes to checks: requested by a person, claimed by a worker, reported step by step."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Max
from django.utils import timezone

from arena import queue
from arena.accounts.models import User
from arena.audit.services import record
from arena.catalog.models import Hardware, Worker
from arena.curation.models import Check, CheckStatus, CheckStep, Draft
from arena.curation.validation import lacks_tolerance, problems_of, targets_of
from arena.errors import Conflict, NotFound
from arena.leases import SILENT

MAX_STEPS = 5_000


def hardware_for_checks() -> list[Hardware]:
    """Return the hardware of live workers, GPUs first."""
    live = Worker.objects.live().exclude(hardware=None).values_list("hardware", flat=True)
    return list(Hardware.objects.filter(pk__in=live).order_by("-kind", "slug"))


def request_check(draft: Draft, user: User, hardware_slug: str = "") -> Check:
    """Ask a worker to check the present files of a draft.

    Raises: Conflict for files with problems, or without a worker.
    """
    if not draft.is_open:
        raise Conflict("This draft is closed.")
    if found := problems_of(draft.name, draft.files):
        raise Conflict(f"The files have problems: {found[0]}")
    hardware = _online(hardware_slug)
    tracks = targets_of(draft.name, draft.files)
    if all(hardware.kind not in kinds for _, kinds in tracks):
        raise Conflict(f"{hardware.name} can judge none of its tracks.")
    return _requested(draft, user, hardware, "draft.check")


def request_fit(draft: Draft, user: User, hardware_slug: str = "") -> Check:
    """Ask a worker to fit the tolerance of a draft in the short form.

    Raises: Conflict for files that need none or cannot be read, or without a worker.
    """
    if not draft.is_open:
        raise Conflict("This draft is closed.")
    if not lacks_tolerance(draft.name, draft.files):
        raise Conflict("These files need no fit: correct their problems, or run the checks.")
    return _requested(draft, user, _online(hardware_slug), "draft.fit", fits=True)


def _online(slug: str) -> Hardware:
    """Return the hardware with this slug, by default the first one. Raises Conflict, NotFound."""
    online = hardware_for_checks()
    hardware = next((each for each in online if slug in ("", each.slug)), None)
    if hardware is None and slug:
        raise NotFound(f"No worker with the hardware {slug[:100]!r} is online.")
    if hardware is None:
        raise Conflict("No worker that measures is online.", "Start one: `make arena`.")
    return hardware


def _requested(
    draft: Draft, user: User, hardware: Hardware, action: str, fits: bool = False
) -> Check:
    try:
        with transaction.atomic():
            check = Check.objects.create(
                draft=draft,
                content_hash=draft.content_hash,
                hardware=hardware,
                requested_by=user,
                fits=fits,
            )
            record(user, action, draft, f"On {hardware.name}.", check=check.pk)
            queue.enqueue(*check.queue_message)
    except IntegrityError:
        raise Conflict(f"A check of this draft waits or runs on {hardware.name} already.") from None
    return check


def claim_check(check_id: int, lease: str) -> Check | None:
    """Claim a queued check; None where it is not queued, and for files that have changed since."""
    if not Check.objects.claim(check_id, lease):
        return None
    check = Check.objects.select_related("draft", "hardware").get(pk=check_id)
    if check.draft.content_hash == check.content_hash:
        return check
    text = "The files changed before this began: check them again."
    Check.objects.end(check_id, lease, CheckStatus.BROKEN, message=text)
    return None


def heartbeat_check(check_id: int, lease: str) -> bool:
    """Renew the lease of a check; False if it is lost."""
    return Check.objects.renew(check_id, lease)


def add_steps(check_id: int, lease: str, bodies: list[dict[str, Any]]) -> None:
    """Append what the judge printed. Raises OverflowError beyond MAX_STEPS."""
    with transaction.atomic():
        if not Check.objects.held(check_id, lease).exists():
            return
        steps = CheckStep.objects.filter(check_of=check_id)
        last = steps.aggregate(last=Max("number"))["last"] or 0
        if last + len(bodies) > MAX_STEPS:
            raise OverflowError("too many steps")
        CheckStep.objects.bulk_create(
            CheckStep(check_of_id=check_id, number=number, body=body)
            for number, body in enumerate(bodies, last + 1)
        )
        if more := sum(int(b.get("count", 0)) for b in bodies if b.get("type") == "task"):
            Check.objects.filter(pk=check_id).update(total=F("total") + more)


def finish_check(check_id: int, lease: str, admitted: bool, message: str = "") -> bool:
    """End a check with its result; False if the lease is lost."""
    status = CheckStatus.PASSED if admitted else CheckStatus.FAILED
    return Check.objects.end(check_id, lease, status, message=message)


def break_check(check_id: int, lease: str, reason: str, interrupted: bool = False) -> bool:
    """Retry a check that failed by the arena's fault, or end it. False if the lease is lost."""
    check = Check.objects.select_related("hardware").get(pk=check_id)
    if not check.is_tried_again(interrupted):
        return Check.objects.end(check_id, lease, CheckStatus.BROKEN, message=reason)
    with transaction.atomic():
        if not check.put_back(lease, interrupted, total=0):
            return False
        check.steps.all().delete()
    return True


def reap_checks() -> int:
    """End checks whose worker is silent, and send messages again that nobody has claimed."""
    count = Check.objects.reap(lambda each: break_check(each.pk, each.lease, SILENT, True))
    for hardware in Hardware.objects.filter(pk__in=Check.objects.active().values("hardware")):
        count += Check.objects.filter(hardware=hardware).send_again(hardware.queue)
    return count


def cancel_check(check: Check, user: User) -> None:
    """End a check that waits or runs; its worker stops at its next heartbeat. Raises Conflict."""
    with transaction.atomic():
        active = Check.objects.active().filter(pk=check.pk)
        text = f"Cancelled by {user.get_username()}."
        if not active.update(
            status=CheckStatus.BROKEN, message=text, lease="", ended_at=timezone.now()
        ):
            raise Conflict("This check has ended.")
        record(user, "draft.cancel-check", check.draft)
