"""Reason why a run makes no progress: its queue, the work ahead of it, and its workers."""

from __future__ import annotations

from dataclasses import dataclass

from arena import queue
from arena.catalog.models import Hardware, Worker
from arena.leases import machine_of
from arena.runs.models import Evaluation, Run
from arena.runs.states import EVALUATION_WAITING, EvaluationStatus, RunStatus
from evaluation.device_kind import CPU


@dataclass(frozen=True)
class Waiting:
    """The queue of a run, the evaluations or runs ahead, and whether a live worker serves it.

    An evaluation that a device measures is ahead of those that wait for it.
    """

    queue: str
    ahead: int
    served: bool

    @property
    def reason(self) -> str:
        if not self.served:
            missing, remedy = unserved(self.queue)
            return f"Waiting: {missing} (for admins: {remedy})."
        hardware = _hardware(self.queue)
        worker = hardware.name if hardware else f"the next {_worker(self.queue)}"
        return f"Waiting for {worker}: {f'{self.ahead} ahead' if self.ahead else 'next in line'}."


def waiting_of(run: Run) -> Waiting | None:
    """Return what `run` waits for; None if it is active or has ended."""
    if run.ended:
        return None
    if run.status == RunStatus.QUEUED:
        nobody = dead_end(run)
        return Waiting(nobody or queue.AGENTS, Run.objects.ahead_of(run).count(), not nobody)
    asked = Evaluation.objects.filter(submission__run=run, status__in=EVALUATION_WAITING)
    evaluation = asked.select_related("hardware").order_by("pk").first()
    if evaluation is None:
        return None
    before = Evaluation.objects.filter(status=evaluation.status, pk__lt=evaluation.pk)
    if evaluation.status == EvaluationStatus.QUEUED:
        return _waiting(queue.BUILD, before.count())
    measured = Evaluation.objects.filter(status=EvaluationStatus.MEASURING)
    same_device = (before | measured).filter(hardware=evaluation.hardware)
    return _waiting(evaluation.hardware.queue, same_device.count())


def waits_of(run: Run) -> tuple[str, ...]:
    """Return the states of the evaluations of an active run that wait, the first one first."""
    if run.ended:
        return ()
    asked = Evaluation.objects.filter(submission__run=run, status__in=EVALUATION_WAITING)
    return tuple(asked.order_by("pk").values_list("status", flat=True))


def is_paused(run: Run) -> bool:
    """Return whether its agent is suspended: a kernel of another run is measured on its cores."""
    if run.status != RunStatus.RUNNING or run.is_external:
        return False
    here = Evaluation.objects.held_on(machine_of(run.lease)).exclude(submission__run=run)
    return here.filter(status=EvaluationStatus.MEASURING, hardware__kind=CPU).exists()


def dead_end(run: Run) -> str | None:
    """Return the first queue of a run from which no worker takes work; None if there is none."""
    needed, served = (queue.AGENTS, queue.BUILD, run.hardware.queue), Worker.objects.queues()
    return next((name for name in needed if name not in served), None)


def _waiting(name: str, ahead: int) -> Waiting:
    return Waiting(name, ahead, bool(Worker.objects.serving(name)))


def unserved(name: str) -> tuple[str, str]:
    """Return which worker a queue lacks, and the remedy or problem, for admins."""
    hardware = _hardware(name)
    worker = f"worker for {hardware.name}" if hardware else _worker(name)
    if problem := Worker.objects.problem_with(name):
        return f"the {worker} takes no work", problem.removesuffix(".")
    place = " on a machine with this device" if hardware else ""
    return f"no {worker} is online", f"run `make arena`{place}"


def _worker(name: str) -> str:
    """Return the kind of worker that takes a queue which any machine can take."""
    return "agent worker" if name == queue.AGENTS else f"{name} worker"


def _hardware(queue: str) -> Hardware | None:
    """Return the device of a queue; None for a queue of any machine."""
    return Hardware.objects.filter(queue=queue).first()
