"""Start the missing runs of an experiment; finished runs are not repeated.

A plan is a TOML file:

    title = "Two searches"
    tasks = ["*/cuda-to-cuda", "softmax/triton-to-triton"]      # globs or names, in this order
    hardware = ["nvidia-h200"]        # default: the best on this machine for the task
    repeats = 2                       # default 1
    agents = ["expert"]               # or tables:

    [[agents]]
    agent = "tuner"
    tasks = ["rope/cuda-to-cuda"]     # default: those of the plan, which come first
    budget = { rounds = 3 }           # default: that of the plan
    name = "tuner-7"                  # with settings it is another agent, which needs a name
    settings = { seed = 7 }           # and so with a `model` of its provider

    [budget]
    rounds = 6
    seconds = 60

With --until-done this process executes everything, without a web server, a queue server or other
workers. Besides what the judge needs, only Django, pydantic, dramatiq and jsonschema must be
installed. After an interruption the same command continues; on another machine with the same
hardware, --continue names the results so far.
"""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils.module_loading import import_string

from arena.errors import UserError
from arena.runs import experiments
from arena.runs.display.terminal import verdict_of
from arena.runs.experiments import Plan
from arena.runs.models import Experiment, Run
from arena.runs.states import RUN_ACTIVE
from arena.runs.transfer import results

POLL_SECONDS = 2
UNTIL_DONE = {
    "at_once": "--at-once", "start_within": "--start-within", "results_so_far": "--continue",
}  # fmt: skip
"""Options that need --until-done."""


class Command(BaseCommand):
    help = __doc__

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.formatter_class = RawDescriptionHelpFormatter
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("plan", nargs="?", help="a name that --list shows, or a TOML file")
        add("--list", action="store_true", help="list the built-in plans")
        add("--wait", action="store_true", help="wait for every run to end")
        add("--until-done", action="store_true", help="execute all runs in this process")
        about = "number of parallel runs (with --until-done)"
        add("--at-once", type=int, metavar="N", help=about)
        about = "start no run later than this (with --until-done); call again for the rest"
        add("--start-within", type=float, metavar="SECONDS", help=about)
        about = "import these results first; runs on this hardware in them are not repeated"
        about += " (with --until-done)"
        add("--continue", type=Path, metavar="FILE", dest="results_so_far", help=about)
        add("--export", type=Path, metavar="FILE", help="write the judged runs: .jsonl, .gz, .xz")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["list"] or not options["plan"]:
            for name in experiments.built_in():
                self.stdout.write(f"{name:<20} {experiments.read_plan(name).title}")
            return
        if options["at_once"] is not None and options["at_once"] < 1:
            raise CommandError(f"--at-once {options['at_once']}: name a whole number of 1 or more.")
        if options["export"]:
            self._require_place(options["export"])
        try:
            plan = experiments.read_plan(options["plan"])
            execute = self._execute if options["until_done"] else self._start
            experiment, complete = execute(plan, options)
        except UserError as error:
            raise CommandError(error.text) from error
        if options["export"]:
            self._export(experiment, options["export"])
        if not complete:
            raise SystemExit(1)

    def _start(self, plan: Plan, options: dict[str, Any]) -> tuple[Experiment, bool]:
        """Start the missing runs; return False if a run that was waited for broke."""
        if extra := [flag for name, flag in UNTIL_DONE.items() if options[name] is not None]:
            raise UserError(f"{extra[0]} goes with --until-done.", "Add that, or leave it out.")
        started = experiments.start(plan)
        runs = (*started.there, *started.runs)
        for line in started.left_out:
            self.stdout.write(f"left out: {line}")
        if options["verbosity"]:
            for run in runs:
                self.stdout.write(f"{run.pk}  {verdict_of(run)}")
            counts = f"{len(started.runs)} started, {len(started.there)} there already"
            self.stdout.write(f"{started.experiment}: {counts}.")
        return started.experiment, not options["wait"] or self._wait([run.pk for run in runs])

    def _execute(self, plan: Plan, options: dict[str, Any]) -> tuple[Experiment, bool]:
        """Execute the missing runs in this process; return False if one is not judged."""
        if not settings.HEADLESS:
            raise CommandError("--until-done is an option of `manage.py` alone.")
        chosen = (options[name] for name in UNTIL_DONE)
        done = import_string(settings.EXECUTOR)(plan, self.stdout.write, *chosen)
        return done.experiment, done.whole

    def _require_place(self, path: Path) -> None:
        """Refuse a file that cannot be written, before runs that take hours are started."""
        if path.is_dir() or not os.access(path.absolute().parent, os.W_OK | os.X_OK):
            raise CommandError(f"{path} cannot be written: name a file in a folder that is there.")
        if path.suffix not in (".jsonl", *results.PACKED):
            raise CommandError(f"{path}: name a file that ends in .jsonl, .gz or .xz.")

    def _export(self, experiment: Experiment, path: Path) -> None:
        try:
            count = results.export(experiment, path)
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
        self.stdout.write(f"{path}: {count} judged runs written.")

    def _wait(self, ids: list[str]) -> bool:
        """Print each verdict as it comes; return False if a run broke or was cancelled."""
        runs = Run.objects.with_names().filter(pk__in=ids)
        open_ids = set(runs.active().values_list("pk", flat=True))
        while open_ids:
            for run in runs.filter(pk__in=open_ids).exclude(status__in=RUN_ACTIVE):
                self.stdout.write(verdict_of(run))
                open_ids.discard(run.pk)
            time.sleep(POLL_SECONDS if open_ids else 0)
        return not runs.filter(status__in=experiments.RESTARTED).exists()
