"""One run from the terminal: started, followed, and ended with its verdict."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from arena.errors import UserError
from arena.runs import services
from arena.runs.models import Run
from arena.runs.states import RunStatus
from arena.runs.terminal import follow, line_of, verdict_of
from arena.runs.waiting import dead_end, unserved


class Command(BaseCommand):
    help = (
        "Let an agent work on a task and follow it; the exit code is 0 if the run passed, else 1."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--agent", required=True, metavar="SLUG")
        parser.add_argument("--task", required=True, metavar="OPERATOR/TRACK")
        parser.add_argument("--hardware", metavar="SLUG", help="default: what a live worker offers")
        parser.add_argument("--rounds", type=int, help="how many verdicts the agent may ask for")
        parser.add_argument("--seconds", type=int, help="how long it may work")
        parser.add_argument("--label", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        asked = {name: options[name] for name in ("rounds", "seconds")}
        budget = {name: value for name, value in asked.items() if value is not None}
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
            raise CommandError(f"The run was not started: {missing}. Try again after: {remedy}.")

    def _follow(self, run: Run, after: int = 0) -> None:
        """Show the run to its end. Ctrl-C cancels it; a second one leaves at once."""
        try:
            if ahead := Run.objects.ahead_of(run).count():
                self.stdout.write(f"queued before it: {ahead}")
            for event in follow(run, after):
                after = event.seq
                if line := line_of(event):
                    self.stdout.write(line)
        except KeyboardInterrupt:
            self.stdout.write("cancelling …")
            services.cancel_run(run, None)
            for event in follow(run, after):
                if line := line_of(event):
                    self.stdout.write(line)
