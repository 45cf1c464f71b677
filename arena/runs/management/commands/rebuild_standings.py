"""Rebuild the standings and records from all runs, or check them."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from arena.runs.scoring.standings import rebuild


class Command(BaseCommand):
    help = "Compute the standings and records of all boards anew from the runs."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--check", action="store_true", help="Change nothing; fail if a row is wrong."
        )

    def handle(self, *args: Any, check: bool, **options: Any) -> None:
        found = rebuild(write=not check)
        text = f"{found.standings} standings and {found.records} records, {found.wrong} were wrong"
        if check and found.wrong:
            raise CommandError(f"{text}: run `manage.py rebuild_standings`.")
        self.stdout.write(f"{text}.")
