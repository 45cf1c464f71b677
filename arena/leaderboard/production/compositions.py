"""Compositions: requested for the best kernels of an architecture, measured by idle devices.

All that is known is in the rows, so `advance` may be called by any worker at any time. A set of
kernels is measured once for each device.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from arena import queue
from arena.catalog.models import Hardware
from arena.leaderboard.models import Composition, CompositionStatus
from arena.leaderboard.production.architectures import (
    Best,
    Entry,
    Prediction,
    best_of,
    descriptions,
    entries,
    predicted,
)
from arena.leaderboard.ranking.results import Snapshot, computed, snapshot
from arena.leases import SILENT
from arena.runs.models import Evaluation, Run, Standing
from arena.runs.states import EVALUATION_ACTIVE
from arena.runs.trace.redaction import clean
from evaluation.kinds.module.architectures import TRACK, architectures
from evaluation.kinds.module.composition import MIN_PARTS
from evaluation.kinds.module.description.brief import Facts
from evaluation.types import Report, Verdict, to_json


@dataclass(frozen=True)
class Together:
    """The best kernels of an architecture on a device, with their predicted speed in one model.

    `submissions` and `key` are as in `Composition`; the key is empty where a submission is unknown.
    """

    prediction: Prediction
    submissions: Mapping[str, Mapping[str, Any]]
    key: str


def together(shown: Snapshot, device: str) -> Mapping[str, Together]:
    """Return the best kernels of each architecture that has several of them, by its name."""

    def compute() -> Mapping[str, Together]:
        every = entries().items()
        found = ((name, _of(e, best_of(shown, device, e.modules))) for name, e in every)
        return {name: each for name, each in found if each}

    return computed(shown, ("together", device), compute)


def _of(entry: Entry, best: Sequence[Best]) -> Together | None:
    if len(best) < MIN_PARTS:
        return None
    described = descriptions(each.module for each in best)
    prediction = predicted(
        [(each.module, each.deployed) for each in best],
        lambda module: entry.paths(module, described.get(module.task, Facts())),
    )
    if prediction is None or len(prediction.modules) < MIN_PARTS:
        return None
    chosen = {each.run: each.module.operator for each in best if each.module in prediction.modules}
    columns = ("pk", "final", "final__content_hash")
    finals = Run.objects.filter(pk__in=chosen).exclude(final=None).values_list(*columns)
    submissions = {chosen[run]: {"id": pk, "hash": content} for run, pk, content in finals}
    architecture = architectures().get(entry.name)
    if architecture is None or len(submissions) < len(chosen):
        return Together(prediction, {}, "")
    hashes = sorted((operator, each["hash"]) for operator, each in submissions.items())
    key = hashlib.sha256(json.dumps([architecture.hash, hashes]).encode()).hexdigest()
    return Together(prediction, submissions, key)


def measured(architecture: str, hardware: Hardware, wanted: Together) -> Composition | None:
    """Return the composition of exactly these kernels; None where none was requested."""
    of_device = Composition.objects.filter(hardware=hardware, architecture=architecture)
    return of_device.filter(key=wanted.key).first() if wanted.key else None


def advance(hardware: Hardware) -> bool:
    """Send the next composition of a device that nothing else waits for; False for none.

    One that was sent and that nobody has claimed is sent again.
    """
    of_device = Composition.objects.filter(hardware=hardware)
    if is_busy(hardware):
        return False
    if of_device.active().exists():
        return bool(of_device.send_again(hardware.queue))
    if not Standing.objects.filter(hardware=hardware, task__track=TRACK).exists():
        return False
    requested = set(of_device.values_list("architecture", "key"))
    for name, wanted in together(snapshot(), hardware.slug).items():
        is_new = wanted.key and (name, wanted.key) not in requested
        if is_new and not architectures()[name].missing():
            return _request(name, hardware, wanted)
    return False


def _request(name: str, hardware: Hardware, wanted: Together) -> bool:
    """Return whether no other worker was first, and no composition of the device is active."""
    try:
        with transaction.atomic():
            made = Composition.objects.create(
                architecture=name,
                architecture_hash=architectures()[name].hash,
                hardware=hardware,
                key=wanted.key,
                submissions=dict(wanted.submissions),
            )
            queue.enqueue(*made.queue_message)
    except IntegrityError:
        return False
    return True


def is_busy(hardware: Hardware) -> bool:
    """Return whether a verdict waits for a device or is under way."""
    waiting = Evaluation.objects.filter(hardware=hardware, status__in=EVALUATION_ACTIVE)
    return waiting.exists()


def claim(pk: int, lease: str) -> Composition | None:
    """Claim a queued composition; None where it is not queued.

    While its device is busy it stays queued, and `advance` sends its message again.
    """
    composition = Composition.objects.select_related("hardware").filter(pk=pk).first()
    if composition is None or is_busy(composition.hardware):
        return None
    return composition if Composition.objects.claim(pk, lease) else None


def finish(composition: Composition, lease: str, report: Report) -> bool:
    """Store what was measured; False if the lease is lost."""
    if report.verdict is Verdict.BROKEN:
        return put_back(composition.pk, lease, report.message or "The judge failed.")
    if report.task_hash != composition.architecture_hash:
        reason = "The architecture changed on disk; start the workers again."
        return put_back(composition.pk, lease, reason)
    data = clean(to_json(report))
    return Composition.objects.end(
        composition.pk,
        lease,
        CompositionStatus.DONE,
        verdict=data["verdict"],
        message=data["message"],
        gates={gate["gate"]: gate["detail"] for gate in data["gates"]},
        judge_version=data["judge_version"],
        fingerprint=data["fingerprint"],
    )


def put_back(pk: int, lease: str, reason: str, interrupted: bool = False) -> bool:
    """Retry a composition that failed by our fault, or end it. False if the lease is lost."""
    composition = Composition.objects.select_related("hardware").get(pk=pk)
    if not composition.is_tried_again(interrupted):
        return Composition.objects.end(pk, lease, CompositionStatus.BROKEN, message=clean(reason))
    return composition.put_back(lease, interrupted)


def reap() -> int:
    """Put compositions back whose worker is silent, and return their number."""
    return Composition.objects.reap(lambda each: put_back(each.pk, each.lease, SILENT, True))
