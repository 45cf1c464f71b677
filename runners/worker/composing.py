"""Composing: the judge measures several submissions in one model, while its device is idle."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import Any

from arena.catalog.models import Hardware
from arena.catalog.task_folders import root_of_operator
from arena.leaderboard.models import Composition
from arena.leaderboard.production import compositions
from arena.runs.models import Submission
from arena.runs.services import new_lease
from arena.runs.states import Scope
from evaluation.kinds.module.composition import COMPOSITION
from evaluation.types import Report, from_json
from runners.worker.bench import Bench, bench_of
from runners.worker.judging import MEASURE, JudgeBroke, Judging, is_interruption, request_of

logger = logging.getLogger(__name__)


def advance(devices: Iterable[Hardware]) -> int:
    """Queue again what a silent worker held, queue what idle devices measure, return the number."""
    return compositions.reap() + sum(compositions.advance(each) for each in devices)


def compose(composition_id: int) -> None:
    """Measure a queued composition, once a bench of its hardware is free."""
    with bench_of(Composition, composition_id) as bench:
        lease = new_lease()
        if bench is not None and (claimed := compositions.claim(composition_id, lease)):
            _carry_out(claimed, lease, bench)


def _carry_out(composition: Composition, lease: str, bench: Bench) -> None:
    try:
        report = Judging(
            str(composition),
            composition.hardware,
            MEASURE,
            bench,
            _request(composition),
            partial(Composition.objects.renew, composition.pk, lease),
        ).carry_out()
        assert report is not None, "a measurement has a report"
    except JudgeBroke as broke:
        logger.warning("%s: %s", composition, broke)
        compositions.put_back(composition.pk, lease, str(broke), is_interruption(broke))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        compositions.put_back(composition.pk, lease, text, is_interruption(error))
        raise
    else:
        compositions.finish(composition, lease, from_json(Report, report))


def _request(composition: Composition) -> dict[str, Any]:
    chosen = [each["id"] for each in composition.submissions.values()]
    files: dict[str, str] = {}
    for submission in Submission.objects.filter(pk__in=chosen):
        files |= submission.files
    task = f"{composition.architecture}/{COMPOSITION}"
    return request_of(task, root_of_operator(None), files, Scope.FINAL)
