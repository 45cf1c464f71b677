"""Load runs, published kernels or verdicts; runs that exist here stay as they are."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from arena.errors import UserError
from arena.published import loading
from arena.runs import services


class Command(BaseCommand):
    help = f"{__doc__} The exit code is 1 if a line was refused; the others are loaded."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "files",
            nargs="+",
            type=Path,
            metavar="FILE",
            help="results.jsonl, claims-*.jsonl or verdicts-*.jsonl, or packed .gz, .xz",
        )

    def handle(self, *args: Any, files: list[Path], **options: Any) -> None:
        refused = False
        for path in files:
            try:
                loaded, refusals = _load(path)
            except UserError as error:
                raise CommandError(error.text) from error
            for line in refusals:
                self.stderr.write(line)
            refused = refused or bool(refusals)
            count = f", {len(refusals)} lines refused" if refusals else ""
            self.stdout.write(f"{path}: {loaded}{count}.")
        if refused:
            raise SystemExit(1)


def _load(path: Path) -> tuple[str, Sequence[str]]:
    """Load a file; return what was loaded, and a message for each refused line."""
    if loading.is_published(path):
        file = loading.load(path)
        return "loaded before" if file.known else f"{file.rows} rows loaded", file.refused
    found = services.import_results(path)
    loaded = "loaded before" if found.known else f"{len(found.loaded)} runs loaded"
    existing = f", {len(found.existing)} there already" if found.existing else ""
    return loaded + existing, found.refused
