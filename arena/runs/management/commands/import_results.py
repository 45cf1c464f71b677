"""Load runs that were judged elsewhere; runs that exist here stay as they are."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from arena.errors import UserError
from arena.runs import services


class Command(BaseCommand):
    help = f"{__doc__} The exit code is 1 if a line was refused; the others are loaded."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "files", nargs="+", type=Path, metavar="FILE", help="results.jsonl, or packed .gz, .xz"
        )

    def handle(self, *args: Any, files: list[Path], **options: Any) -> None:
        refused = False
        for path in files:
            try:
                found = services.import_results(path)
            except UserError as error:
                raise CommandError(error.text) from error
            for line in found.refused:
                self.stderr.write(line)
            refused = refused or bool(found.refused)
            loaded = "loaded before" if found.known else f"{len(found.loaded)} runs loaded"
            existing = f", {len(found.existing)} there already" if found.existing else ""
            refusals = f", {len(found.refused)} lines refused" if found.refused else ""
            self.stdout.write(f"{path}: {loaded}{existing}{refusals}.")
        if refused:
            raise SystemExit(1)
