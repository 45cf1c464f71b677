"""Check tasks for admission: wrong implementations must fail, correct ones must pass."""

from __future__ import annotations

from argparse import ArgumentParser
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from arena.catalog.models import REPOSITORY, Operator, Task
from arena.catalog.services import store_admission
from arena.catalog.task_folders import root_of_operator
from evaluation.errors import RequestError
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
        from evaluation.code.languages import languages
        from evaluation.judge import report_text
        from evaluation.judge.admission import Attempt
        from evaluation.kinds.kernel.admission import admit
        from evaluation.kinds.kernel.load import load_task
        from evaluation.kinds.repository import admission as repository
        from evaluation.kinds.repository.judge import not_judged_here
        from evaluation.kinds.repository.task import find_task
        from evaluation.types import TaskCheck, to_json

        def log(attempt: Attempt | TaskCheck) -> None:
            self.stdout.write(report_text.attempt(attempt))

        operators = Operator.objects.in_bulk(field_name="slug")
        cache = settings.ARENA_HOME / "judge"
        refused = []
        for slug in self._slugs(slugs):
            operator, _, track = slug.partition("/")
            root = root_of_operator(operators.get(operator))
            try:
                if track == REPOSITORY:
                    of_repository = find_task(root, operator)
                    reason = not_judged_here(of_repository)
                    check = partial(repository.admit, of_repository, cache, log)
                else:
                    task = load_task(root, operator, track)
                    reason = languages()[task.track.target].runs_here()
                    check = partial(admit.admit, task, cache, log, self_test=self_test)
                if reason:
                    self.stdout.write(f"{slug}: skipped: {reason}")
                    continue
                admission = check()
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
