from importlib import import_module

from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "arena.runs"

    def ready(self) -> None:
        """Connect the receivers of signals."""
        import_module("arena.runs.signals")
