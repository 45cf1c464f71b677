"""Tests of the roofline of a run and of a task."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from arena.catalog.models import Hardware, Task
from arena.leaderboard.kernels.best_kernels import best_kernels
from arena.runs.display.roofline import Ceiling, roofline_of
from arena.runs.templatetags.rooflines import (
    BOTTOM,
    HALF_LABEL,
    LEFT,
    RIGHT,
    TOP,
    Axis,
    roofline_svg,
)
from tests.arena.factories import HIDDEN_CASE, finished
from tests.web.world import World

PEAKS = {"memory_gbps": 40.0, "l2_gbps": 100.0, "float32_tflops": 0.4}


def case(**changes):
    values = {"case": "small", "gbps": 20.0, "tflops": 0.1, "candidate_us": 10.0}
    values |= {"baseline_us": 40.0, "speedup": 4.0, "roofline_share": 0.5, "noisy": False}
    return SimpleNamespace(**{**values, **changes})


def drawn(page: str) -> str:
    return page.partition('<svg class="roofline"')[2].partition("</svg>")[0]


def test_case_stands_at_its_operations_per_byte_and_both_speeds():
    found = roofline_of(PEAKS, [case()])
    assert found.bandwidths == (Ceiling("memory_gbps", 40.0), Ceiling("l2_gbps", 100.0))
    assert found.rates == (Ceiling("float32_tflops", 0.4),)
    point = found.points[0]
    assert (point.intensity, point.baseline, point.candidate) == (5.0, 0.025, 0.1)


@pytest.mark.parametrize(
    ("peaks", "cases"),
    [
        ({}, [case()]),
        ({"memory_gbps": 40.0, "float32_tflops": "unknown"}, [case()]),
        (PEAKS, []),
        (PEAKS, [case(gbps=None, tflops=None)]),
        (PEAKS, [case(tflops=0.0)]),
    ],
)
def test_roofline_without_peaks_or_without_work_is_none(peaks, cases):
    assert roofline_of(peaks, cases) is None


def test_logarithmic_axis_has_equal_distances_for_equal_factors():
    axis = Axis(0.1, 1000.0, 0.0, 400.0)
    assert [axis.at(value) for value in (0.1, 1.0, 10.0, 1000.0)] == [0.0, 100.0, 200.0, 400.0]
    assert axis.value(200.0) == pytest.approx(10.0)
    assert axis.ticks == [0.1, 1.0, 10.0, 100.0, 1000.0]


def test_faster_kernel_is_above_its_baseline_and_below_the_ceiling():
    svg = roofline_svg(roofline_of(PEAKS, [case()]), "label")
    candidate, baseline = (float(y) for y in re.findall(r'<circle[^>]* cy="([\d.]+)"', svg))
    ceiling = float(re.search(r'y1="([\d.]+)" y2="[\d.]+"><title>float32', svg)[1])
    assert ceiling < candidate < baseline, "the top of a drawing is 0"


def test_cases_of_equal_intensity_stand_side_by_side():
    cases = [case(case=name) for name in ("a", "b", "c")]
    svg = roofline_svg(roofline_of(PEAKS, cases), "label")
    assert len(set(re.findall(r'<circle cx="([\d.]+)"', svg))) == 3


def test_slower_kernel_and_a_hostile_name_are_marked_and_escaped():
    slow = case(case="<script>", speedup=0.5, baseline_us=5.0)
    svg = roofline_svg(roofline_of(PEAKS, [slow]), "label")
    assert 'class="case slow"' in svg and "&lt;script&gt;" in svg and "<script>" not in svg


@pytest.mark.django_db
def test_run_and_task_show_the_roofline_of_public_cases(client, start, hardware, task):
    Hardware.objects.update(peaks=PEAKS)
    run = finished(start())
    for address in (f"{run.get_absolute_url()}?tab=results", task.get_absolute_url()):
        page = client.get(address).content.decode()
        assert "small: 0.050 → 0.100 TFLOP/s (2.00×), 50% of the roofline" in drawn(page), address
        assert HIDDEN_CASE not in page, address
        row = r'<th scope="row">small</th><td[^>]*data-label="Operations per byte">20\.0</td>'
        assert re.search(row, page), address
    assert f'href="{run.get_absolute_url()}#cases">' in page


@pytest.mark.django_db
def test_page_without_measured_peaks_shows_no_roofline(client, start, hardware, task):
    Hardware.objects.update(peaks={})
    run = finished(start())
    for address in (f"{run.get_absolute_url()}?tab=results", task.get_absolute_url()):
        assert not drawn(client.get(address).content.decode())


def test_roofline_of_a_task_takes_three_queries_for_all_devices(
    db, client, world: World, lasting_answers, django_assert_num_queries
):
    world.passed("softmax/cpp-to-cpp", "tuner", 2.0, rounds=1)
    world.passed("softmax/cpp-to-cpp", "tuner", 2.4, rounds=1, hardware="intel-xeon-8370c-4c")
    task = Task.objects.get(operator__slug="softmax", track="cpp-to-cpp")
    best_kernels(task.pk)
    with django_assert_num_queries(3):  # the version of the standings, verdicts, cases
        assert len(best_kernels(task.pk)) == 2


def test_records_of_a_task_are_steps_whose_points_open_their_code(client, world):
    first = world.passed("rms_norm/cpp-to-cpp", "scripted", 1.5, rounds=1)
    page = client.get("/tasks/rms_norm/cpp-to-cpp/").content.decode()
    assert "roofline records" not in page, "one record is no history"
    second = world.passed("rms_norm/cpp-to-cpp", "tuner", 2.1, rounds=3)
    page = client.get("/tasks/rms_norm/cpp-to-cpp/").content.decode()
    drawn = page.partition('class="roofline records"')[2].partition("</svg>")[0]
    assert re.findall(r'<a href="([^"]*)"><circle', drawn) == [
        f"/runs/{first.pk}/rounds/1/",
        f"/runs/{second.pk}/rounds/3/",
    ]
    assert "1.78× by Tuner on" in drawn and drawn.count("<path") == 1


CPU = {"memory_gbps": 23.8, "l3_gbps": 51.4, "l2_gbps": 101.0, "l1_gbps": 207.0}
GPU = {"memory_gbps": 4000.0, "l2_gbps": 9000.0, "float32_tflops": 60.0, "bfloat16_tflops": 800.0}


@pytest.mark.parametrize("peaks", [PEAKS, {**CPU, "float32_tflops": 0.03}, GPU])
@pytest.mark.parametrize("intensity", [0.05, 5.0, 400.0])
def test_lines_and_labels_of_a_roofline_stay_inside_its_frame(peaks, intensity):
    speed = min(intensity * peaks["memory_gbps"] / 1e3, peaks["float32_tflops"]) / 2
    shown = roofline_of(peaks, [case(tflops=speed, gbps=1e3 * speed / intensity)])
    svg = roofline_svg(shown, "label")
    lines = re.findall(r'class="ceiling[^>]*x1="(\S+)" x2="(\S+)" y1="(\S+)" y2="(\S+)"', svg)
    assert len(lines) == len(peaks)
    for begin, end, *heights in [[float(at) for at in line] for line in lines]:
        assert LEFT <= begin < end <= RIGHT
        assert all(TOP <= height <= BOTTOM for height in heights)
    for at, height in re.findall(r"translate\((\S+) (\S+)\) rotate", svg):
        assert LEFT + HALF_LABEL - 0.1 <= float(at) <= RIGHT - HALF_LABEL
        assert TOP < float(height) < BOTTOM
    for anchor in ("middle", "end"):
        assert len(re.findall(rf'class="at"[^>]*text-anchor="{anchor}"', svg)) >= 2


def test_axis_with_one_power_of_ten_has_ticks_between():
    assert Axis(0.004, 0.05, 0.0, 100.0).ticks == [0.005, 0.01, 0.02, 0.05]
