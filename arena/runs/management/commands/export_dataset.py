"""Write everything that is public as a data set: runs, verdicts, cases, kernels and traces."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from arena.runs.transfer import dataset


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="a folder that is new or empty")
        parser.add_argument("--licence", default="CC-BY-4.0", help="named on the card")

    def handle(self, *args: Any, folder: Path, licence: str, **options: Any) -> None:
        try:
            counts = dataset.write(folder, licence)
        except OSError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(", ".join(f"{count} {name}" for name, count in counts.items()) + ".")
