"""Local executor: runs an experiment in one process, without web server, queue or workers.

The rows say what is due, as for workers; threads execute it. Each device measures one thing at a
time, while agents of the next runs work and their sources are built.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, connections

from arena.catalog import services as catalog
from arena.catalog.models import Hardware
from arena.errors import UserError
from arena.runs import experiments, services
from arena.runs.models import Evaluation, Event, Experiment, Run
from arena.runs.states import EVALUATION_WAITING, RUN_JUDGED, EvaluationStatus, RunStatus
from arena.runs.terminal import line_of, verdict_of
from runners import home
from runners.catalog import sync
from runners.process.supervisor import stopping
from runners.worker import attempt, bench, judging
from runners.worker.devices import NoHardware, find_devices

logger = logging.getLogger(__name__)

TICK_SECONDS = 0.1
POLL_SECONDS = 5.0
MAX_CONCURRENT = 3
CORES_A_RUN = 4
GIVE_WAY = 10
Say = Callable[[str], object]


@dataclass(frozen=True)
class Done:
    """Result of an experiment; `whole` if every run that can be judged here has been."""

    experiment: Experiment
    whole: bool


def carry_out(
    plan: experiments.Plan,
    say: Say,
    at_once: int | None = None,
    start_within: float | None = None,
    results_so_far: Path | None = None,
) -> Done:
    """Execute what is missing of `plan`, and log progress; SIGINT and SIGTERM stop it soon.

    `at_once` runs are executed in parallel: by default one where a CPU is measured, which must not
    be disturbed. No run is started later than `start_within` seconds from now. Results in the file
    `results_so_far` for this machine's hardware are imported and not repeated.

    Raises: UserError.
    """
    until = time.monotonic() + start_within if start_within is not None else None
    try:
        with ExitStack() as stack:
            stack.enter_context(home.locked(home.made(Path(settings.ARENA_HOME))))
            stack.enter_context(_stopped_by_signals(say))
            hardware = _make_ready(say)
            stack.enter_context(_listed(hardware))
            stack.callback(bench.clear_here)
            _check_hardware(plan, hardware)
            services.take_over()
            going_on: list[Hardware] = []
            if results_so_far is not None:
                going_on = hardware
                for line in services.import_results(results_so_far).refused:
                    say(f"left out: {line}")
            started = experiments.start(plan, going_on)
            for line in started.left_out:
                say(f"left out: {line}")
            runs = [*started.there, *started.runs]
            Shop(runs, hardware, say, at_once or _at_once(runs), until).work()
            ids = [run.pk for run in runs]
            judged = Run.objects.filter(pk__in=ids, status__in=RUN_JUDGED).count()
            say(f"{started.experiment}: {judged} of {len(ids)} runs are judged.")
            return Done(started.experiment, judged == len(ids))
    except (home.CannotStart, NoHardware) as error:
        raise UserError(str(error)) from error


def _make_ready(say: Say) -> list[Hardware]:
    """Prepare database, catalogue and devices."""
    call_command("migrate", verbosity=0, interactive=False)
    for problem in sync():
        say(f"left out: {problem}")
    say("looking at this machine (the first time its peaks are measured)")
    found = find_devices()
    hardware = [catalog.register_hardware(each.model) for each in found.values()]
    bench.here.update({slug: each.benches for slug, each in found.items()})
    counted = [(_benches_of(device), device.name) for device in hardware]
    names = (name if count == 1 else f"{count} x {name}" for count, name in counted)
    say(f"kernels are measured on {', '.join(names)}")
    return hardware


def _benches_of(device: Hardware) -> int:
    """Return the devices of one model here, which measure in parallel."""
    return len(bench.here.get(device.slug, ()))


def _check_hardware(plan: experiments.Plan, hardware: list[Hardware]) -> None:
    """Refuse a plan for hardware that is not here; drop runs that wait for another machine."""
    here = [device.slug for device in hardware]
    if gone := [slug for slug in plan.hardware if slug not in here]:
        raise UserError(f"There is no {gone[0]} on this machine.", f"It has {', '.join(here)}.")
    elsewhere = Run.objects.active().filter(experiment__slug=plan.slug)
    for run in elsewhere.exclude(hardware__in=hardware):
        services.cancel_run(run, None)


@contextmanager
def _listed(hardware: list[Hardware]) -> Iterator[None]:
    """List this process among the live workers, so that runs find its devices."""
    _poll(hardware)
    try:
        yield
    finally:
        for device in hardware:
            catalog.remove_worker(_worker_name(device))


def _poll(hardware: list[Hardware]) -> None:
    for device in hardware:
        catalog.heartbeat_worker(
            _worker_name(device), queues=[device.queue], pid=os.getpid(), hardware=device
        )


def _worker_name(device: Hardware) -> str:
    return f"{socket.gethostname()}/headless/{device.slug}"


@contextmanager
def _stopped_by_signals(say: Say) -> Iterator[None]:
    def stop(*_: object) -> None:
        say("stopping; call again to go on")
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        stopping.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def _at_once(runs: list[Run]) -> int:
    if any(run.hardware.kind == Hardware.Kind.CPU for run in runs):
        return 1
    benches = sum(_benches_of(hardware) for hardware in {run.hardware for run in runs})
    return max(1, min(MAX_CONCURRENT * benches, (os.cpu_count() or 1) // CORES_A_RUN))


class Shop:
    """Executes what the rows of `runs` say is due, until all of them have ended."""

    def __init__(
        self,
        runs: list[Run],
        hardware: list[Hardware],
        say: Say,
        at_once: int,
        until: float | None,
    ) -> None:
        self._runs = {run.pk: run for run in runs if not run.ended}
        self._hardware = hardware
        self._say = say
        self._at_once = at_once
        self._until = until
        self._all = len(runs)
        self._ended = self._all - len(self._runs)
        self._told = dict.fromkeys(self._runs, 0)
        self._at_work: dict[tuple[str, str | int], Future[None]] = {}

    def work(self) -> None:
        with ExitStack() as stack:
            agents, builders = (
                stack.enter_context(ThreadPoolExecutor(self._at_once, name, _give_way))
                for name in ("agent", "builder")
            )
            benches = {
                device.pk: stack.enter_context(
                    ThreadPoolExecutor(_benches_of(device), device.queue)
                )
                for device in self._hardware
            }
            stack.callback(stopping.set)  # what is at work ends soon where this fails
            self._next_poll = 0.0
            while self._runs:
                try:
                    if self._stopped and not self._at_work:
                        break
                    self._turn(agents, builders, benches)
                except DatabaseError as error:
                    logger.warning("asked again later: %s", error)
                    connections.close_all()
                time.sleep(TICK_SECONDS)

    def _turn(
        self,
        agents: ThreadPoolExecutor,
        builders: ThreadPoolExecutor,
        benches: dict[int, ThreadPoolExecutor],
    ) -> None:
        """Start what is due, and log what is new."""
        if time.monotonic() >= self._next_poll:
            _poll(self._hardware)
            self._next_poll = time.monotonic() + POLL_SECONDS
        if not stopping.is_set():
            self._start_runs(agents)
            self._start_judging(builders, benches)
        self._collect()
        self._tell()

    @property
    def _stopped(self) -> bool:
        """Return whether nothing more may start: stopped, or the time for starting is over."""
        if stopping.is_set():
            return True
        active = Run.objects.filter(pk__in=self._runs).exclude(status=RunStatus.QUEUED)
        return self._late and not active.exists()

    @property
    def _late(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until

    def _start_runs(self, agents: ThreadPoolExecutor) -> None:
        """Start as many runs as may execute at a time, from agent start to final verdict."""
        if self._late:
            return
        rows = Run.objects.filter(pk__in=self._runs).values_list("pk", "status")
        status = dict(rows)
        busy = {pk for pk, state in status.items() if state != RunStatus.QUEUED}
        busy |= {str(key) for kind, key in self._at_work if kind == "run"}
        for pk in self._runs:
            if len(busy) >= self._at_once:
                return
            if pk not in busy:
                busy.add(pk)
                run = self._runs[pk]
                self._say(f"{self._name(run)} begins ({self._ended + 1} of {self._all})")
                self._take_on(agents, "run", pk, partial(attempt.attempt, pk))

    def _start_judging(
        self, builders: ThreadPoolExecutor, benches: dict[int, ThreadPoolExecutor]
    ) -> None:
        waiting = Evaluation.objects.filter(
            submission__run__in=self._runs, status__in=EVALUATION_WAITING
        )
        for pk, status, hardware in waiting.order_by("pk").values_list(
            "pk", "status", "hardware_id"
        ):
            if status == EvaluationStatus.QUEUED:
                pool, kind, work = builders, "build", judging.build
            elif hardware in benches:
                pool, kind, work = benches[hardware], "measure", judging.measure
            else:
                continue
            if (kind, pk) not in self._at_work:
                self._take_on(pool, kind, pk, partial(work, pk))

    def _take_on(
        self, pool: ThreadPoolExecutor, kind: str, key: str | int, work: Callable[[], None]
    ) -> None:
        def alone() -> None:
            try:
                work()
            finally:
                connections.close_all()

        self._at_work[kind, key] = pool.submit(alone)

    def _collect(self) -> None:
        """Remove finished work. An exception has ended its row; it is logged here."""
        for key, future in list(self._at_work.items()):
            if future.done():
                del self._at_work[key]
                if error := future.exception():
                    logger.error("%s %s: %s: %s", *key, type(error).__name__, error)

    def _tell(self) -> None:
        """Log what is new of active runs, and how runs ended."""
        rows = Run.objects.with_names().filter(pk__in=self._runs)
        for run in rows.exclude(status=RunStatus.QUEUED):
            if run.last_seq > self._told[run.pk]:
                fresh = Event.objects.filter(run=run, seq__gt=self._told[run.pk])
                for event in fresh.order_by("seq"):
                    self._told[run.pk] = event.seq
                    if _matters(event) and (line := line_of(event)):
                        self._say(f"  {self._name(run)} {line}")
            if run.ended:
                self._ended += 1
                del self._runs[run.pk]
                self._say(f"[{self._ended}/{self._all}] {verdict_of(run)}")

    def _name(self, run: Run) -> str:
        return f"{run.task_version.task} by {run.agent}"


def _give_way() -> None:
    """Lower the priority of this thread and its children. On Linux each thread has a niceness."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), GIVE_WAY)


def _matters(event: Event) -> bool:
    """Return whether a terminal that follows many runs shows an event."""
    if event.kind == "gate_result":
        return bool(event.body["verdict"] != "passed")
    return event.kind in ("metric", "limit", "error", "interrupt", "log")
