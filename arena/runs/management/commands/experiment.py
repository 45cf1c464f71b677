"""A labelled set of runs: the missing are started, the finished are not repeated."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from arena.errors import UserError
from arena.runs import experiments
from arena.runs.models import Run
from arena.runs.states import RUN_ACTIVE, RunStatus
from arena.runs.terminal import verdict_of

POLL_SECONDS = 2


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("plan", nargs="?", help="a name that --list shows, or a TOML file")
        parser.add_argument("--list", action="store_true", help="name the plans that are here")
        parser.add_argument("--wait", action="store_true", help="wait for every run to end")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["list"] or not options["plan"]:
            for name in experiments.built_in():
                self.stdout.write(f"{name:<20} {experiments.read_plan(name).title}")
            return
        try:
            plan = experiments.read_plan(options["plan"])
            experiment, started, there = experiments.start(plan)
        except UserError as error:
            raise CommandError(f"{error.message} {error.hint}".strip()) from error
        if options["verbosity"]:
            for run in (*there, *started):
                self.stdout.write(f"{run.pk}  {verdict_of(run)}")
            self.stdout.write(f"{experiment}: {len(started)} started, {len(there)} there already.")
        if options["wait"]:
            self._wait([run.pk for run in (*there, *started)])

    def _wait(self, ids: list[str]) -> None:
        """Tell each end as it comes; exit with 1 if a run broke or was cancelled."""
        runs = Run.objects.with_names().filter(pk__in=ids)
        open_ids = set(runs.filter(status__in=RUN_ACTIVE).values_list("pk", flat=True))
        while open_ids:
            for run in runs.filter(pk__in=open_ids).exclude(status__in=RUN_ACTIVE):
                self.stdout.write(verdict_of(run))
                open_ids.discard(run.pk)
            time.sleep(POLL_SECONDS if open_ids else 0)
        if runs.filter(status__in=(RunStatus.BROKEN, RunStatus.CANCELLED)).exists():
            raise SystemExit(1)
