"""Browser tests that tables show what matters within the width of a tablet and of a phone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from arena.catalog import services as catalog
from arena.catalog.models import Agent, Hardware, Operator
from arena.runs import services
from arena.runs.models import Run
from tests.arena import production, published
from tests.web.conftest import DESK, PHONE
from tests.web.world import DEVICE, LEASE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]
TASK = "rms_norm/cpp-to-cpp"
SMALL_TABLET, TABLET = {"width": 820, "height": 1180}, {"width": 1000, "height": 800}
CUT_BELOW = """() => [...document.querySelectorAll(".scroll")]
    .filter((box) => box.scrollHeight > box.clientHeight).map((box) => box.ariaLabel)"""
SCROLLED = """() => [...document.querySelectorAll(".scroll")]
    .filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.ariaLabel)"""
FILTERED = {
    "/leaderboard/?task_set=all": "#board tbody th[scope=row]",
    "/tasks/": "#task-list tbody th",
    "/runs/": "#runs-now tbody th",
    "/analysis/": "main h2",
}
"""Pages with several filters, and the first result of each."""

CATEGORIES = {
    "cross_entropy": "SparseLinearAlgebra",
    "matmul": "SparseMatrixMultiply",
    "rms_norm": "BatchNormalization",
    "rope": "WeightQuantization",
    "softmax": "SparseConvolution",
    "swiglu": "SpatialOps",
}
NAMES = """(row) => row.textContent + [...row.querySelectorAll("td")]
    .map((cell) => getComputedStyle(cell, "::before").content)"""


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
def test_filters_are_closed_behind_one_line_on_a_phone_only(open_page, served_world, scripts):
    served_world.passed(TASK, "tuner", 2.1, rounds=1)
    for path, first in FILTERED.items():
        page = open_page(path, PHONE, java_script_enabled=scripts)
        form, line = page.locator(".filters-line + .filters"), page.locator(".filters-line summary")
        assert line.is_visible() and not form.is_visible(), path
        assert page.locator(first).first.bounding_box()["y"] < PHONE["height"], path
        line.press("Enter")
        form.wait_for(state="visible")
        page.set_viewport_size(TABLET)
        line.wait_for(state="hidden")
        assert form.is_visible(), path
        wide = open_page(path, TABLET, java_script_enabled=scripts)
        assert wide.locator(".filters-line + .filters").is_visible(), path


def test_line_of_closed_filters_names_those_in_force(open_page, served_world):
    served_world.passed(TASK, "tuner", 2.1, rounds=1)
    page = open_page("/runs/", PHONE)
    line = page.locator(".filters-line summary")
    assert line.inner_text() == "Filters: none"
    line.click()
    page.get_by_label("Task", exact=True).fill("rms & norm")
    page.locator("#in-force", has_text="Task rms & norm").wait_for()
    page.get_by_label("Status").select_option("passed")
    page.wait_for_url("**status=passed**")
    assert line.inner_text() == "Filters: Task rms & norm, Status passed"
    assert line.evaluate("line => line === document.activeElement")


def test_lists_of_runs_and_boards_fit_a_tablet(open_page, served_world, in_thread):
    served_world.passed(TASK, "tuner", 2.1, rounds=2)
    run = served_world.start(TASK, "tuner")
    in_thread(Run.objects.exclude(pk=run.pk)).update(noisy=True, judge_version=1)
    reason = "processor busy 100 % of the time: inconclusive, other work disturbed 28 of 30"
    in_thread(services).finish_run(run.pk, LEASE, "broken", reason, "arena")
    for path in ("/", "/runs/", "/agents/", "/leaderboard/?task_set=all"):
        for viewport in (SMALL_TABLET, TABLET, DESK):
            page = open_page(path, viewport)
            assert page.evaluate(SCROLLED) == [], (path, viewport)
    page = open_page("/runs/", TABLET)
    assert page.locator("tr", has_text=run.pk).bounding_box()["height"] < 130


def test_mark_of_a_run_leaves_room_for_its_interval_on_a_phone(open_page, served_world, in_thread):
    run = served_world.passed(TASK, "tuner", 2.1, rounds=2)
    in_thread(Run.objects).update(noisy=True, judge_version=1)
    page = open_page("/runs/", PHONE)
    card = page.locator("tr", has_text=run.pk)
    mark = card.locator(".fit .pill").bounding_box()
    assert mark["x"] + mark["width"] <= PHONE["width"]
    assert mark["y"] + mark["height"] <= card.locator(".interval").bounding_box()["y"]


def test_tablet_shows_agents_without_their_settings(open_page, served_world):
    for viewport, shown in ((TABLET, False), (DESK, True)):
        page = open_page("/agents/", viewport)
        assert page.locator(".agents th", has_text="Settings").is_visible() is shown
        assert page.locator(".agents th", has_text="Pass rate").is_visible()


@pytest.mark.parametrize("problem", ["", "another worker of this machine measures here. " * 3])
@pytest.mark.parametrize("viewport", [DESK, TABLET, PHONE], ids=["desk", "tablet", "phone"])
def test_hardware_page_shows_workers_without_sideways_scrolling(
    open_page, served_world, in_thread, viewport, problem
):
    device = in_thread(Hardware.objects).get(slug=DEVICE["slug"])
    workers = in_thread(catalog)
    name = f"a-machine-with-a-long-name-17/{device.queue}/cores-18"
    workers.heartbeat_worker(name, queues=[device.queue], pid=1, hardware=device, problem=problem)
    queues = ["agents", "build", "production"]
    workers.heartbeat_worker("a-machine-with-a-long-name-17/rest", queues=queues, pid=2)
    page = open_page("/hardware/", viewport)
    assert page.evaluate(SCROLLED) == []
    row = page.locator("tr", has_text=name)
    assert row.bounding_box()["height"] < 250
    text = row.inner_text()
    assert "last heartbeat" in text and ("takes no work" if problem else "online") in text


@pytest.mark.parametrize("width", [390, 720])
def test_categories_of_a_board_fit_the_width(open_page, served_world, in_thread, width):
    for operator, category in CATEGORIES.items():
        in_thread(Operator.objects.filter(slug=operator)).update(category=category)
        served_world.passed(f"{operator}/cpp-to-cpp", "tuner", 2.1, rounds=1)
    path = "/leaderboard/parts/categories/?task_set=all"
    page = open_page(path, {"width": width, "height": 800})
    shown = page.locator("tbody tr", has_text="Tuner")
    assert page.evaluate(SCROLLED) == []
    assert shown.locator("td[data-label]").count() == len(CATEGORIES)
    names = shown if width < 700 else page.locator("thead")
    read = names.evaluate(NAMES)
    assert all(category in read for category in CATEGORIES.values())


def test_labels_of_the_chart_of_claims_stand_apart_on_a_phone(
    open_page, served_world, in_thread, tmp_path
):
    lines = [published.kernel_line(40 + n, 10.0**n, speedup=10.0**n) for n in range(-3, 4)]
    in_thread(published).load_claims(tmp_path, [*published.one_of_each_outcome(), *lines])
    page = open_page("/claims/", PHONE)
    page.locator("#chart-claims").scroll_into_view_if_needed()
    page.locator("#chart-claims .xtick text").first.wait_for()
    whole, inner = (
        page.locator(f"#chart-claims {name}").first.bounding_box()["width"]
        for name in (".plot", ".nsewdrag")
    )
    assert inner > whole / 2
    for axis, begin, size in (("x", "x", "width"), ("y", "y", "height")):
        labels = page.locator(f"#chart-claims .{axis}tick text")
        boxes = sorted((each.bounding_box() for each in labels.all()), key=lambda box: box[begin])
        assert len(boxes) > 2
        for box, after in pairwise(boxes):
            assert box[begin] + box[size] <= after[begin] + 1, (axis, boxes)


@pytest.mark.parametrize("width", [390, 820, 1000])
def test_tables_of_claims_fit_the_width(open_page, served_world, in_thread, tmp_path, width):
    long = "kbv0l2_96_convtranspose3d_multiply_max_globalavgpool_clamp"
    noisy = published.kernel_line(96, 1368.0, speedup=205.0, judged_noisy=True, task=long)
    in_thread(published).load_claims(tmp_path, [*published.one_of_each_outcome(), noisy])
    page = open_page("/claims/", {"width": width, "height": 800})
    assert page.evaluate(SCROLLED) == []
    row = page.get_by_label("Table: kernels").locator("tr", has_text=long)
    assert "noisy" in row.inner_text()


@pytest.mark.parametrize("path", ["/", "/claims/", "/tasks/rms_norm/cpp-to-cpp/"])
def test_tables_of_a_phone_are_as_tall_as_their_rows(
    open_page, served_world, in_thread, tmp_path, path
):
    lines = [
        published.kernel_line(n, model=f"Model {name}", speedup=1.5)
        for n in range(12)
        for name in "ABCDEF"
    ]
    in_thread(published).load_claims(tmp_path, lines)
    page = open_page(path, PHONE)
    assert page.locator(".scroll").count()
    assert page.evaluate(CUT_BELOW) == []


@pytest.mark.parametrize("size", [PHONE, {"width": 360, "height": 740}, SMALL_TABLET, DESK])
def test_measured_peaks_of_a_gpu_have_their_units_within_the_width(open_page, served_world, size):
    peaks = {"dram_gbps": 4195.0, "float32_tflops": 132.1, "float16_tflops": 765.8}
    Hardware.objects.filter(slug=DEVICE["slug"]).update(kind="gpu", peaks=peaks)
    page = open_page("/hardware/", size)
    assert "or three products in TF32, where faster" in page.locator("main").inner_text()
    assert page.evaluate(SCROLLED) == []


def test_tables_of_charts_fit_a_phone(open_page, served_world, in_thread):
    run = served_world.passed(TASK, "tuner", 2.1, rounds=2)
    kernel = in_thread(production).production_run("tuner", "llama_rms_norm")
    board = "/leaderboard/parts/generalization/?task_set=all"
    for path in ("/analysis/", board, f"/runs/{run.pk}/", f"/runs/{kernel.pk}/"):
        page = open_page(path, PHONE)
        tables = page.locator(".chart details")
        assert tables.count(), path
        for table in tables.all():
            table.evaluate("(table) => (table.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        assert page.evaluate(SCROLLED) == [], path


def test_names_of_architectures_have_room_on_a_tablet(open_page, served_world, in_thread):
    in_thread(production).production_run("tuner", "llama_rms_norm")
    page = open_page("/production/", SMALL_TABLET)
    name = page.locator(".architectures tbody th").first
    assert name.bounding_box()["width"] > 150
    assert page.evaluate(SCROLLED) == []


def test_tables_of_a_task_and_of_an_agent_fit_a_phone(open_page, served_world):
    served_world.passed(TASK, "tuner", 2.1, rounds=2)
    for path in (f"/tasks/{TASK}/", "/agents/tuner/"):
        page = open_page(path, PHONE)
        assert page.evaluate(SCROLLED) == [], path


def test_maps_of_a_board_show_cells_beside_a_long_name_on_a_phone(
    open_page, served_world, in_thread
):
    served_world.passed(TASK, "tuner", 2.1, rounds=1)
    served_world.passed("softmax/cpp-to-cpp", "tuner", 1.6, rounds=1)
    in_thread(Agent.objects.filter(slug="tuner")).update(title="An agent-with-a-long-name " * 3)
    for part in ("matrix", "categories"):
        page = open_page(f"/leaderboard/parts/{part}/?task_set=all", PHONE)
        cells: Any = page.locator("tbody td")
        assert cells.first.bounding_box()["x"] < PHONE["width"] / 2, part
        assert page.evaluate(SCROLLED) == [], part


@pytest.mark.parametrize("width", [320, 390, 705, 820, 1000, 1089])
def test_navigation_is_whole_at_every_width(open_page, served_world, width):
    page = open_page("/", {"width": width, "height": 900})
    menu, last = (page.locator(part).last.bounding_box() for part in (".nav", ".nav a"))
    assert last["x"] + last["width"] <= menu["x"] + menu["width"] <= width


def test_offered_runs_show_their_speedup_below_a_long_name_on_a_phone(
    open_page, served_world, in_thread
):
    run, _ = (served_world.passed(TASK, agent, 2.1, rounds=1) for agent in ("tuner", "cautious"))
    in_thread(Agent.objects.filter(slug="cautious")).update(title="An-agent with a long name " * 3)
    page = open_page(f"/compare/?run={run.pk}", PHONE)
    assert page.evaluate(SCROLLED) == []
    offered = page.locator("tr", has_text="An-agent").last.inner_text()
    assert "2.10×" in offered


@pytest.mark.parametrize("viewport", [SMALL_TABLET, PHONE], ids=["tablet", "phone"])
def test_compared_runs_and_their_cases_fit_the_width(open_page, served_world, viewport):
    runs = [served_world.passed(TASK, agent, 2.1, rounds=1) for agent in ("tuner", "cautious")]
    page = open_page("/compare/?" + "&".join(f"run={run.pk}" for run in runs), viewport)
    assert page.evaluate(SCROLLED) == []
    row = page.get_by_label("Table: cases").locator("tbody tr").first
    assert viewport == SMALL_TABLET or "Tuner" in row.evaluate(NAMES)


def test_ticks_of_the_curve_can_be_read_on_a_phone(open_page, served_world):
    served_world.passed(TASK, "tuner", 2.1, rounds=1)
    page = open_page("/leaderboard/?task_set=all", PHONE)
    drawn = page.locator("svg.fast-p text:visible")
    boxes = [each.bounding_box() for each in drawn.all()]
    assert len(boxes) > 5 and all(box["height"] >= 10 for box in boxes)
    assert not any(
        a["x"] < b["x"] + b["width"]
        and b["x"] < a["x"] + a["width"]
        and a["y"] < b["y"] + b["height"]
        and b["y"] < a["y"] + a["height"]
        for number, a in enumerate(boxes)
        for b in boxes[:number]
    )


def test_choices_of_a_page_are_as_wide_as_their_names(open_page, served_world):
    page = open_page(f"/tasks/{TASK}/", {"width": 1600, "height": 900})
    tracks = page.get_by_label("Other tracks of this operator").bounding_box()
    last = page.locator(".segments a").last.bounding_box()
    assert tracks["width"] < page.locator("main").bounding_box()["width"] - 100
    assert abs(last["x"] + last["width"] - tracks["x"] - tracks["width"]) < 3
