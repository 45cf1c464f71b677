"""Move traces of old runs and the texts that events cut out of the database, into the store."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from arena.runs.models import Run
from arena.runs.trace import retention


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--days",
            type=float,
            default=settings.ARENA_RETENTION_DAYS,
            help="age from which traces are archived (default ARENA_RETENTION_DAYS, or none is)",
        )
        what.add_argument("--restore", metavar="RUN", help="bring the trace of a run back")

    def handle(self, *args: Any, days: float | None, restore: str | None, **options: Any) -> None:
        if restore:
            run = Run.objects.filter(pk=restore).first()
            if run is None or not retention.restore(run):
                raise CommandError(f"No trace of a run {restore!r} is archived.")
            self.stdout.write(f"The trace of {restore} is in the database again.")
            return
        texts = retention.move_blobs()
        runs = 0 if days is None else sum(1 for _ in retention.archive_old(days))
        self.stdout.write(f"{texts} texts moved, traces of {runs} runs archived.")
