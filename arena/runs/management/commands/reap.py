"""End work without a heartbeat, and send lost messages to workers again."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from arena.runs import services


class Command(BaseCommand):
    help = __doc__

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"{services.reap()} seen to.")
