"""Recorded traffic in the database: found by every machine, and gone once its run is judged."""

from __future__ import annotations

import pytest

from arena.runs import services
from arena.runs.models import TrafficPart
from arena.runs.traffic import add_part, recording
from tests.arena.factories import LEASE, ask_for_verdict, judge, report

pytestmark = pytest.mark.django_db


def test_recording_is_that_of_the_first_run_that_has_one(start):
    first, second = start(), start(repeat=1)
    add_part(first.pk, 0, b"one\n")
    add_part(first.pk, 4, b"two\n")
    add_part(first.pk, 4, b"two\n")
    assert recording([second.pk, first.pk]) == b"one\ntwo\n"
    assert recording([second.pk]) == b""


def test_judged_run_forgets_its_recording_and_that_of_the_run_before(start):
    broken = start()
    services.claim_run(broken.pk, LEASE)
    add_part(broken.pk, 0, b"one\n")
    services.finish_run(broken.pk, LEASE, "broken", "Its machine is gone.", "arena")
    assert recording([broken.pk]), "another machine continues it"
    run = services.continue_run(broken, None)
    other = start(repeat=1)
    add_part(other.pk, 0, b"three\n")
    add_part(run.pk, 0, b"one\n")
    services.claim_run(run.pk, LEASE)
    judge(ask_for_verdict(run), report())
    assert list(TrafficPart.objects.values_list("run", flat=True)) == [other.pk]
