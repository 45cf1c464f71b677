"""Make the credentials of one worker machine, or revoke them."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from arena.errors import UserError
from arena.runs import credentials


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("machine", help="what `hostname` prints there")
        action = parser.add_mutually_exclusive_group(required=True)
        action.add_argument("--queues", nargs="+", help="build, agents, hw.SLUG")
        action.add_argument("--revoke", action="store_true", help="end its credentials")

    def handle(self, *args: Any, machine: str, queues: list[str] | None, **options: Any) -> None:
        try:
            if queues is None:
                found = credentials.revoke(machine)
                self.stderr.write(f"{machine} has no access now." if found else "It had none.")
                return
            access = credentials.grant(machine, queues)
        except UserError as refused:
            raise CommandError(refused.text) from None
        self.stdout.write(f"DATABASE_URL={access.database_url}\nREDIS_URL={access.redis_url}")
