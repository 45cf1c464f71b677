"""Tests of baseline times: points from stored measurements, and the flag of those that drifted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from arena.curation.baseline_times import Series, baseline_times, measured_tasks
from arena.runs.models import Measurement
from tests.arena.factories import finished


@pytest.fixture
def measure(start: Any) -> Callable[..., None]:
    """Judge a run whose baseline takes these microseconds on its seen case."""

    def judge_at(us: float, judge_version: str = "5") -> None:
        run = finished(start(), judge_version=judge_version)
        seen = Measurement.objects.filter(evaluation__submission__run=run, split="seen")
        assert seen.update(baseline_us=us) == 1

    return judge_at


def only_series(hardware: Any) -> Series:
    (found,) = baseline_times(hardware, measured_tasks(hardware))
    return found


def test_points_are_those_of_the_seen_cases_of_each_evaluation(measure: Any, hardware: Any) -> None:
    for us, judge in ((10.0, "4"), (12.0, "4"), (11.0, "5")):
        measure(us, judge)
    found = only_series(hardware)
    assert [round(point.us, 6) for point in found.points] == [10.0, 12.0, 11.0]
    assert (found.baseline, round(found.median_us, 6)) == ("cpp", 11.0)
    assert [(judge, round(us, 6), count) for judge, us, count in found.by_judge] == [
        ("4", 11.0, 2), ("5", 11.0, 1),
    ]  # fmt: skip
    assert found.drift == pytest.approx(0) and not found.drifted
    assert len(found.line.split()) == 3


@pytest.mark.parametrize(
    ("times", "drifted"),
    [
        ((10.0, 10.0, 10.19), False),
        ((10.0, 10.0, 10.21), True),
        ((10.0, 10.0, 9.79), True),
        ((10.0, 20.0), False),
    ],
)
def test_baseline_is_flagged_beyond_two_percent_of_its_median(
    measure: Any, hardware: Any, times: tuple[float, ...], drifted: bool
) -> None:
    for us in times:
        measure(us)
    assert only_series(hardware).drifted is drifted


def test_evaluation_that_missed_a_case_is_left_out(measure: Any, hardware: Any) -> None:
    measure(10.0)
    evaluation = Measurement.objects.filter(split="seen").get().evaluation
    other = Measurement.objects.get(evaluation=evaluation, split="seen")
    other.pk, other.case, other.baseline_us = None, "large", 1000.0
    other.save()
    measure(50.0)
    (point,) = only_series(hardware).points
    assert point.us == pytest.approx(100.0)  # the geomean of 10 and 1000


def test_page_shows_devices_and_drifted_baselines(
    client: Client, reviewer: Any, measure: Any, hardware: Any
) -> None:
    client.force_login(reviewer)
    address = reverse("baselines")
    assert "Nothing was measured here yet" in client.get(address).content.decode()
    measure(10.0)
    measure(10.0)
    measure(10.0)
    none = client.get(address, {"hardware": hardware.slug, "drifted": "1"}).content.decode()
    assert "has drifted by more than 2%" in none
    measure(10.5)
    for query in ({}, {"hardware": hardware.slug, "drifted": "1"}):
        html = client.get(address, query).content.decode()
        assert "+5.0%" in html and '<span class="badge">drifted</span>' in html
    assert client.get(address, {"hardware": "none"}).status_code == 404


def test_page_needs_few_queries(
    client: Client, reviewer: Any, measure: Any, django_assert_max_num_queries: Any
) -> None:
    for us in (1.0, 2.0, 3.0):
        measure(us)
    client.force_login(reviewer)
    with django_assert_max_num_queries(11):
        client.get(reverse("baselines"))
