"""Print a link that signs the first administrator in once, without a password."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from arena.accounts import sign_in_link


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--address", default="", help="address of the arena, put before it")

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(options["address"].rstrip("/") + sign_in_link.link())
