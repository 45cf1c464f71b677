"""End what nobody keeps alive, and ask again for work whose message was lost."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from arena.runs import services


class Command(BaseCommand):
    help = __doc__

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"{services.reap()} seen to.")
