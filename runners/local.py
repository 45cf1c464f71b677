"""Execution of an experiment on one machine, without a web server or a queue server.

The workers are threads of this process. Each device measures one thing at a time, while agents of
the next runs work and their sources are built.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.core.management import call_command

from arena import queue
from arena.catalog.models import Hardware
from arena.errors import UserError
from arena.runs import experiments, services
from arena.runs.display.terminal import line_of, verdict_of
from arena.runs.models import Event, Experiment, Run
from arena.runs.states import RUN_ACTIVE, RUN_JUDGED, RunStatus
from evaluation.device_kind import CPU
from evaluation.types import Verdict
from runners.catalog import sync
from runners.launcher import CannotStart, locked_home
from runners.process.supervisor import stopping
from runners.worker import bench, worker
from runners.worker.devices import NoHardware
from runners.worker.worker import Duty

RUNS = "local"
"""Queue of the runs that are due, each named by its message."""
TICK_SECONDS = 0.5
"""Between two looks at the runs. On two cores each takes time from what is measured."""
RESEND_SECONDS = 20.0
MAX_CONCURRENT = 3
CORES_PER_RUN = 4
NICENESS = 10
Log = Callable[[str], object]


@dataclass(frozen=True)
class Outcome:
    """Result of an experiment; `whole` if every run that can be judged here has been."""

    experiment: Experiment
    whole: bool


def execute(
    plan: experiments.Plan,
    log: Log,
    at_once: int | None = None,
    start_within: float | None = None,
    results_so_far: Path | None = None,
) -> Outcome:
    """Execute what is missing of `plan`, and log progress; SIGINT and SIGTERM stop it soon.

    `at_once` runs are executed in parallel: by default one where a CPU is measured, which must not
    be disturbed. No run is started later than `start_within` seconds from now. Results in the file
    `results_so_far` for this machine's hardware are imported and not repeated.

    Raises: UserError.
    """
    until = time.monotonic() + start_within if start_within is not None else None
    try:
        with ExitStack() as stack:
            stack.enter_context(locked_home(Path(settings.ARENA_HOME)))
            stack.enter_context(_stopped_by_signals(log))
            stack.callback(bench.clear_here)
            devices = _prepare(plan, log)
            hardware = [duty.hardware for duty in devices if duty.hardware]
            _check_hardware(plan, hardware)
            services.take_over()
            stack.enter_context(worker.serving(*devices))
            worker.poll(*devices)  # lists the hardware that the runs are started for
            going_on: list[Hardware] = []
            if results_so_far is not None:
                going_on = hardware
                for line in services.import_results(results_so_far).refused:
                    log(f"left out: {line}")
            started = experiments.start(plan, going_on)
            for line in started.left_out:
                log(f"left out: {line}")
            runs = [*started.there, *started.runs]
            _Execution(runs, devices, log, at_once or _at_once(runs, devices), until).run()
            ids = [run.pk for run in runs]
            judged = Run.objects.filter(pk__in=ids, status__in=RUN_JUDGED).count()
            log(f"{started.experiment}: {judged} of {len(ids)} runs are judged.")
            return Outcome(started.experiment, judged == len(ids))
    except (CannotStart, NoHardware) as error:
        raise UserError(str(error)) from error


def _prepare(plan: experiments.Plan, log: Log) -> list[Duty]:
    """Prepare database, catalogue and devices, which take long, after a check of the plan."""
    call_command("migrate", verbosity=0, interactive=False)
    for problem in sync().problems:
        log(f"left out: {problem}")
    experiments.check(plan)
    log("looking at this machine (the first time its peaks are measured)")
    devices = worker.hardware_duties(every_kind=True)
    counted = [(duty.threads, duty.hardware.name) for duty in devices if duty.hardware]
    names = (name if count == 1 else f"{count} x {name}" for count, name in counted)
    log(f"kernels are measured on {', '.join(names)}")
    return devices


def _check_hardware(plan: experiments.Plan, hardware: Sequence[Hardware]) -> None:
    """Refuse a plan for hardware that is not here; drop runs that wait for another machine."""
    here = [device.slug for device in hardware]
    if missing := [slug for slug in plan.hardware if slug not in here]:
        raise UserError(f"There is no {missing[0]} on this machine.", f"It has {', '.join(here)}.")
    elsewhere = Run.objects.active().filter(experiment__slug=plan.slug)
    for run in elsewhere.exclude(hardware__in=hardware):
        services.cancel_run(run, None)


@contextmanager
def _stopped_by_signals(log: Log) -> Iterator[None]:
    def stop(*_: object) -> None:
        log("stopping; call again to go on")
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        stopping.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def _at_once(runs: Sequence[Run], devices: Sequence[Duty]) -> int:
    """Return the number of parallel runs that leaves each measurement its cores."""
    needed = {run.hardware for run in runs}
    if any(hardware.kind == CPU for hardware in needed):
        return 1
    benches = sum(duty.threads for duty in devices if duty.hardware in needed)
    return max(1, min(MAX_CONCURRENT * benches, (os.cpu_count() or 1) // CORES_PER_RUN))


class _Execution:
    """Execution of `runs`, at most `at_once` at a time, from start to final verdict."""

    def __init__(
        self,
        runs: Sequence[Run],
        devices: Sequence[Duty],
        log: Log,
        at_once: int,
        until: float | None,
    ) -> None:
        self._open = {run.pk: run for run in runs if not run.ended}
        self._sent = dict.fromkeys(self._open, -RESEND_SECONDS)
        """Time of each run's last message, on the monotonic clock."""
        self._logged = dict.fromkeys(self._open, 0)
        """Number of each run's last event that was logged."""
        self._devices = devices
        self._log = log
        self._at_once = at_once
        self._until = until
        self._count = len(runs)

    def run(self) -> None:
        """Start runs as others end, until all have ended, the time is over, or a signal."""
        agents, builds = Duty((RUNS,), self._at_once), Duty((queue.BUILD,), self._at_once)
        os.nice(NICENESS)  # on Linux of this thread and of those that it starts from now on
        with worker.serving(agents, builds):
            next_poll = 0.0
            while self._open and not stopping.is_set():
                if time.monotonic() >= next_poll:
                    worker.poll(*self._devices, agents, builds)
                    next_poll = time.monotonic() + worker.POLL_SECONDS
                with worker.database_errors_logged():
                    states = self._states()
                    if not self._start_runs(states):
                        break
                    self._log_progress(states)
                time.sleep(TICK_SECONDS)
        self._log_progress(self._states())

    def _states(self) -> dict[str, tuple[str, int]]:
        """Return the status and the number of the last event of each open run."""
        rows = Run.objects.filter(pk__in=self._open).values_list("pk", "status", "last_seq")
        return {pk: (status, last_seq) for pk, status, last_seq in rows}

    def _start_runs(self, states: Mapping[str, tuple[str, int]]) -> bool:
        """Start as many runs as may execute at a time; return whether any executes."""
        now = time.monotonic()
        lost = {pk for pk in self._open if now - self._sent[pk] >= RESEND_SECONDS}
        due = {pk for pk, (status, _) in states.items() if status == RunStatus.QUEUED} & lost
        executing = len(self._open) - len(due)
        if self._until is None or now < self._until:
            for run in [run for pk, run in self._open.items() if pk in due]:
                if executing >= self._at_once:
                    break
                executing += 1
                place = self._count - len(self._open) + 1
                self._log(f"{_name(run)} begins ({place} of {self._count})")
                self._sent[run.pk] = now
                queue.enqueue("run_agent", RUNS, run.pk)
        return executing > 0

    def _log_progress(self, states: Mapping[str, tuple[str, int]]) -> None:
        """Log the new events of runs, and the verdicts of those that have ended."""
        changed = [
            pk
            for pk, (status, last_seq) in states.items()
            if status != RunStatus.QUEUED
            and (last_seq > self._logged[pk] or status not in RUN_ACTIVE)
        ]
        for run in Run.objects.with_names().filter(pk__in=changed) if changed else ():
            if run.last_seq > self._logged[run.pk]:
                events = Event.objects.filter(run=run, seq__gt=self._logged[run.pk])
                for event in events.order_by("seq"):
                    self._logged[run.pk] = event.seq
                    if _matters(event) and (line := line_of(event)):
                        self._log(f"  {_name(run)} {line}")
            if run.ended:
                del self._open[run.pk]
                ended = self._count - len(self._open)
                self._log(f"[{ended}/{self._count}] {verdict_of(run)}")


def _name(run: Run) -> str:
    return f"{run.task_version.task} by {run.agent}"


def _matters(event: Event) -> bool:
    """Return whether a terminal that follows many runs shows an event."""
    if event.kind == "gate_result":
        return bool(event.body["verdict"] != Verdict.PASSED)
    return event.kind in ("metric", "limit", "error", "interrupt", "log")
