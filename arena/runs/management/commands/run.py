"""Start a run and follow it in the terminal."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from arena.errors import UserError
from arena.runs import services
from arena.runs.display.terminal import follow, line_of, verdict_of
from arena.runs.display.waiting import dead_end, unserved
from arena.runs.models import Event, Run
from arena.runs.services.runs import BUDGET
from arena.runs.states import RunStatus


class Command(BaseCommand):
    help = (
        "Let an agent work on a task and follow it; the exit code is 0 if the run passed, else 1."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--agent", required=True, metavar="SLUG")
        parser.add_argument("--task", required=True, metavar="OPERATOR/TRACK")
        parser.add_argument("--hardware", metavar="SLUG", help="default: that of a live worker")
        parser.add_argument("--rounds", type=int, help="limit on submissions")
        parser.add_argument("--seconds", type=int, help="limit on time")
        parser.add_argument("--label", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        budget = {name: options[name] for name in BUDGET if options[name] is not None}
        try:
            with transaction.atomic():
                run = services.start_run(
                    task_slug=options["task"],
                    agent_slug=options["agent"],
                    hardware_slug=options["hardware"],
                    budget=budget,
                    label=options["label"],
                )
                self._check_workers(run)
        except UserError as error:
            raise CommandError(error.text) from error
        self.stdout.write(f"run {run.pk}: {options['agent']} on {options['task']}, {run.hardware}")
        self._follow(run)
        run = Run.objects.with_names().get(pk=run.pk)
        self.stdout.write(verdict_of(run))
        if run.status != RunStatus.PASSED:
            raise SystemExit(1)

    def _check_workers(self, run: Run) -> None:
        """Refuse a run that no worker would execute."""
        if nobody := dead_end(run):
            missing, remedy = unserved(nobody)
            raise CommandError(f"The run was not started: {missing} ({remedy}).")

    def _follow(self, run: Run) -> None:
        """Print the events until the run ends. Ctrl-C cancels the run; a second one exits."""
        after = 0
        if ahead := Run.objects.ahead_of(run).count():
            self.stdout.write(f"queued before it: {ahead}")
        try:
            for event in follow(run, after):
                after = event.seq
                self._print(event)
        except KeyboardInterrupt:
            self.stdout.write("cancelling …")
            services.cancel_run(run, None)
            for event in follow(run, after):
                self._print(event)

    def _print(self, event: Event) -> None:
        if line := line_of(event):
            self.stdout.write(line)
