"""A labelled set of runs: the missing are started, the finished are not repeated.

A plan is a TOML file:

    title = "Two searches"
    tasks = ["*/cuda-to-cuda", "softmax/triton-to-triton"]      # globs or names
    hardware = ["nvidia-h200"]        # default: the best of this machine that judges the task
    repeats = 2                       # default 1
    agents = ["expert"]               # or tables:

    [[agents]]
    agent = "tuner"
    tasks = ["rope/cuda-to-cuda"]     # default: those of the plan
    budget = { rounds = 3 }           # default: that of the plan
    name = "tuner-7"                  # with settings it is another agent, which needs a name
    settings = { seed = 7 }

    [budget]
    rounds = 6
    seconds = 60

With --until-done this process executes everything, without a web server, a queue server or other
workers. Besides what the judge needs, only Django, pydantic and dramatiq must be installed. After
an interruption the same command continues; on another machine with the same hardware, --continue
names the results so far.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils.module_loading import import_string

from arena.errors import UserError
from arena.runs import experiments
from arena.runs.models import Run
from arena.runs.states import RUN_ACTIVE, RunStatus
from arena.runs.terminal import verdict_of
from arena.runs.transfer import results

POLL_SECONDS = 2
ALONE = {"at_once": "--at-once", "start_within": "--start-within", "results_so_far": "--continue"}
"""Options for what works in this process alone."""


class Command(BaseCommand):
    help = __doc__

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.formatter_class = RawDescriptionHelpFormatter
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("plan", nargs="?", help="a name that --list shows, or a TOML file")
        parser.add_argument("--list", action="store_true", help="name the plans that are here")
        parser.add_argument("--wait", action="store_true", help="wait for every run to end")
        parser.add_argument(
            "--until-done", action="store_true", help="work it off here and now, in this process"
        )
        parser.add_argument(
            "--at-once", type=int, metavar="N", help="so many runs at a time (with --until-done)"
        )
        parser.add_argument(
            "--start-within",
            type=float,
            metavar="SECONDS",
            help="start no run later than that (with --until-done); call again for the rest",
        )
        parser.add_argument(
            "--continue",
            type=Path,
            metavar="FILE",
            dest="results_so_far",
            help="load these results first; what they hold of this machine's hardware is not"
            " repeated (with --until-done)",
        )
        parser.add_argument(
            "--export",
            type=Path,
            metavar="FILE",
            help="write the judged runs: .jsonl, .gz or .xz",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["list"] or not options["plan"]:
            for name in experiments.built_in():
                self.stdout.write(f"{name:<20} {experiments.read_plan(name).title}")
            return
        try:
            plan = experiments.read_plan(options["plan"])
            if options["until_done"]:
                self._work_off(plan, options)
                return
            if alone := next((name for key, name in ALONE.items() if options[key] is not None), ""):
                raise UserError(f"{alone} goes with --until-done.", "Add that, or leave it out.")
            started = experiments.start(plan)
        except UserError as error:
            raise CommandError(error.text) from error
        runs = (*started.there, *started.runs)
        for line in started.left_out:
            self.stdout.write(f"left out: {line}")
        if options["verbosity"]:
            for run in runs:
                self.stdout.write(f"{run.pk}  {verdict_of(run)}")
            told = f"{len(started.runs)} started, {len(started.there)} there already"
            self.stdout.write(f"{started.experiment}: {told}.")
        broke = self._wait([run.pk for run in runs]) if options["wait"] else False
        self._export(started.experiment, options["export"])
        if broke:
            raise SystemExit(1)

    def _work_off(self, plan: experiments.Plan, options: dict[str, Any]) -> None:
        """Everything here and now; exit with 1 if something of it is not judged in the end."""
        if not settings.HEADLESS:
            raise CommandError("--until-done is an option of `manage.py` alone.")
        execute = import_string(settings.EXECUTOR)
        chosen = (options[name] for name in ALONE)
        done = execute(plan, self.stdout.write, *chosen)
        self._export(done.experiment, options["export"])
        if not done.whole:
            raise SystemExit(1)

    def _export(self, experiment: Any, path: Path | None) -> None:
        if path is not None:
            try:
                count = results.export(experiment, path)
            except OSError as error:
                raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
            self.stdout.write(f"{path}: {count} judged runs written.")

    def _wait(self, ids: list[str]) -> bool:
        """Tell each end as it comes; whether a run broke or was cancelled."""
        runs = Run.objects.with_names().filter(pk__in=ids)
        open_ids = set(runs.filter(status__in=RUN_ACTIVE).values_list("pk", flat=True))
        while open_ids:
            for run in runs.filter(pk__in=open_ids).exclude(status__in=RUN_ACTIVE):
                self.stdout.write(verdict_of(run))
                open_ids.discard(run.pk)
            time.sleep(POLL_SECONDS if open_ids else 0)
        return runs.filter(status__in=(RunStatus.BROKEN, RunStatus.CANCELLED)).exists()
