"""Read the task folders into the catalog."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from arena.catalog.services import sync_tasks


class Command(BaseCommand):
    help = "Read the task folders into the catalog; unreadable folders are listed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--tasks", type=Path, default=settings.ARENA_TASKS, metavar="FOLDER")

    def handle(self, *args: Any, tasks: Path, **options: Any) -> None:
        report = sync_tasks(tasks)
        for word in ("added", "changed", "missing"):
            for slug in getattr(report, word):
                self.stdout.write(f"{word}: {slug}")
        for problem in report.problems:
            self.stderr.write(self.style.ERROR(problem))
        total = len(report.added) + len(report.changed) + len(report.unchanged)
        self.stdout.write(f"{total} tasks in the catalog.")
        if report.problems:
            raise CommandError(f"{len(report.problems)} folders could not be read.")
