"""First runs of an arena: demonstrations, and the results that come with the project."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

DEMONSTRATIONS = ("tour", "demo")
"""Built-in plans, the shortest first, so that a first verdict is seen soon."""


def live_hardware() -> str:
    """Return the names of the hardware of live workers."""
    from django.db import DatabaseError

    from arena.catalog.models import Worker

    try:
        workers = list(Worker.objects.live().exclude(hardware=None).select_related("hardware"))
    except DatabaseError:  # busy for longer than it should be: the next tick asks again
        return ""
    counts = Counter(worker.hardware.name for worker in workers if worker.hardware)
    return ", ".join(name if n == 1 else f"{n} x {name}" for name, n in counts.items())


def demonstrations() -> list[str]:
    """Return the demonstrations that are missing; none once other runs were judged or wait."""
    from arena.runs.models import Experiment, Run
    from arena.runs.states import RUN_ACTIVE, RUN_JUDGED

    own = Run.objects.filter(imported_at=None, status__in=(*RUN_ACTIVE, *RUN_JUDGED))
    if own.exclude(experiment__slug__in=DEMONSTRATIONS).exists():
        return []
    started = Experiment.objects.filter(slug__in=DEMONSTRATIONS).values_list("slug", flat=True)
    return [plan for plan in DEMONSTRATIONS if plan not in started]


def is_busy() -> bool:
    """Return whether a run is under way here."""
    from arena.runs.models import Run
    from arena.runs.states import RUN_ACTIVE

    return Run.objects.filter(imported_at=None, status__in=RUN_ACTIVE).exists()


def load_published(folder: Path) -> Iterator[str]:
    """Import the results that come with the project, and yield messages about them."""
    from arena.errors import UserError
    from arena.published import loading
    from arena.runs import services

    for path in sorted(folder.glob("*.jsonl*")):
        try:
            if loading.is_published(path):
                loaded = loading.load(path)
                count, what, refused = loaded.rows, "kernels and verdicts", loaded.refused
            else:
                found = services.import_results(path, redacted=True)
                count, what, refused = len(found.loaded), "runs", found.refused
        except UserError as error:
            yield f"left out: {error.message} {error.hint}"
            continue
        if count:
            yield f"loaded {count} published {what} of {path.name}"
        if refused:
            more = f" (and {len(refused) - 1} more)" if refused[1:] else ""
            yield f"left out: {refused[0]}{more}"


class FirstRuns:
    """Starts the demonstrations, one by one, and loads published results.

    Loading would disturb the measurement of the hardware's peaks, and so waits for its end, or
    without hardware for `patience_seconds`. It is over before a first run times anything.
    """

    def __init__(
        self,
        patience_seconds: float,
        *,
        start: Callable[[str], None],
        load: Callable[[], None],
        report: Callable[[str], None],
        hardware: Callable[[], str] = live_hardware,
        missing: Callable[[], list[str]] = demonstrations,
        busy: Callable[[], bool] = is_busy,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create it; `start` gets the slug of a plan, `report` the name of the hardware."""
        self._start, self._load, self._report = start, load, report
        self._hardware, self._missing, self._busy, self._now = hardware, missing, busy, now
        self._load_anyway_at = now() + patience_seconds
        self._waits_for_hardware = self._waits_to_load = True
        self._plans: list[str] = []

    def step(self) -> None:
        """Do what is due now."""
        if self._waits_for_hardware and (name := self._hardware()):
            self._waits_for_hardware = False
            self._report(name)
            self._plans = self._missing()
        if self._plans and not self._busy():
            plan = self._plans.pop(0)
            if plan in self._missing():
                self._start(plan)
        due = not self._waits_for_hardware or self._now() >= self._load_anyway_at
        if self._waits_to_load and due:
            self._waits_to_load = False
            self._load()
