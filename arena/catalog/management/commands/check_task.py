"""Check tasks for admission: wrong implementations must fail, correct ones must pass."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from arena.catalog.models import Operator, Task
from arena.catalog.services import store_admission
from arena.catalog.task_folders import root_of_operator
from arena.home import judge_home
from evaluation.errors import RequestError
from evaluation.judge.kinds import kind_of
from evaluation.kinds.module.architectures import TRACK, not_admitted


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "slugs",
            nargs="*",
            metavar="OPERATOR[/TRACK]",
            help="default: every task in the catalog",
        )
        parser.add_argument(
            "--self-test",
            action="store_true",
            help="also judge trivial submissions and mutants, if an operator has its own",
        )

    def handle(self, *args: Any, slugs: list[str], self_test: bool, **options: Any) -> None:
        # Not needed by other commands, and torch takes a second to import.
        from evaluation.judge import report_text
        from evaluation.types import to_json

        def log(found: Any) -> None:
            self.stdout.write(report_text.attempt(found))

        operators = Operator.objects.in_bulk(field_name="slug")
        cache = judge_home() / "judge"
        refused = []
        for slug in self._slugs(slugs):
            operator, _, track = slug.partition("/")
            root = root_of_operator(operators.get(operator))
            try:
                commands = kind_of(track).commands
                (task,) = commands.to_admit(root, operator, track, None)
                if reason := commands.unavailable(task):
                    self.stdout.write(f"{slug}: skipped: {reason}")
                    continue
                admission = commands.admit(task, cache, log, None, self_test)
            except RequestError as error:
                self.stderr.write(self.style.ERROR(str(error)))
                refused.append(slug)
                continue
            self.stdout.write(report_text.admission(admission))
            if not store_admission(admission.task_hash, to_json(admission), admission.admitted):
                raise CommandError(
                    f"{slug} is newer than the catalog: run `python -m runners sync` first."
                )
            if not admission.admitted:
                refused.append(slug)
        if refused:
            raise CommandError(f"Not admitted: {', '.join(refused)}.")
        self.stdout.write(self.style.SUCCESS("All tasks that run here are admitted."))

    def _slugs(self, names: list[str]) -> list[str]:
        """Return the slugs of the named tasks and operators; of all tasks if none is named."""
        checked = Task.objects.filter(in_tree=True).exclude(track=TRACK).select_related("operator")
        known = [task.slug for task in checked]
        chosen: list[str] = []
        for name in names:
            found = [slug for slug in known if slug == name or slug.startswith(f"{name}/")]
            operator = name.partition("/")[0]
            if not found and Task.objects.by_slug(f"{operator}/{TRACK}").exists():
                try:
                    raise CommandError(not_admitted(operator))
                except RequestError as error:  # its architecture is no longer in this checkout
                    raise CommandError(str(error)) from error
            if not found:
                raise CommandError(
                    f"There is no task {name!r}: run `python -m runners sync`, or see /tasks/."
                )
            chosen += found
        return chosen or known
