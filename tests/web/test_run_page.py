"""Tests of the run page in a real browser: on a phone, in print, by keyboard."""

from __future__ import annotations

import re

import pytest

from arena.runs import services
from arena.runs.trace.events import EventDraft
from tests.web.conftest import PHONE, TIMEOUT_MS

TASK = "rms_norm/cpp-to-cpp"

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("width", [320, PHONE["width"]])
def test_run_header_on_a_phone_shows_every_figure(open_page, served_world, width):
    run = served_world.passed(TASK, "tuner", 2.1, rounds=3)
    page = open_page(f"/runs/{run.pk}/", {**PHONE, "width": width})
    head = page.locator("#run-head")
    assert all(figure.is_visible() for figure in head.locator("dt, dd, .best, .interval").all())
    figures = r"held-out\s+1.78×\s+1.71 to 1.86\s+public\s+2.10×\s+2.06 to 2.14"
    assert re.search(figures, head.inner_text())
    assert head.bounding_box()["height"] < PHONE["height"] / 8
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_chart_is_printed_light_and_dark_again_afterwards(open_page, served_world):
    run = served_world.passed(TASK, "tuner", 2.1, rounds=3)
    ink = "document.querySelector('#chart-rounds .xtick text')?.style.fill"
    light = open_page(f"/runs/{run.pk}/", color_scheme="light")
    dark = open_page(f"/runs/{run.pk}/", color_scheme="dark")
    on_paper, on_screen = (
        page.wait_for_function(f"() => {ink}").json_value() for page in (light, dark)
    )
    assert on_paper != on_screen

    for media, wanted in (("print", on_paper), ("screen", on_screen)):
        dark.emulate_media(media=media)
        dark.wait_for_function(f"wanted => {ink} === wanted", arg=wanted, timeout=TIMEOUT_MS)

    dark.evaluate(f"() => addEventListener('beforeprint', () => (window.printed = {ink}))")
    dark.pdf()
    assert dark.evaluate("window.printed") == on_paper
    dark.wait_for_function(f"wanted => {ink} === wanted", arg=on_screen, timeout=TIMEOUT_MS)
    assert dark.console_errors == []


def test_search_results_are_stepped_through_by_keys(open_page, served_world):
    run = served_world.passed(TASK, "tuner", 2.1, rounds=6)
    page = open_page(f"/runs/{run.pk}/?q=lanes#trace")
    found = page.locator(".event").evaluate_all("them => them.map(it => it.id)")
    assert len(found) > 5
    for key, at in (*(("j", n) for n in (0, 1, 2, 3)), ("k", 2), *(("k", n) for n in (1, 0, 0))):
        page.keyboard.press(key)
        page.wait_for_selector(f"#{found[at]}.here", timeout=TIMEOUT_MS)
        assert page.locator(".here").count() == 1
        box = page.locator(".here").bounding_box()
        assert box["y"] > 0 and box["y"] + min(box["height"], 300) < page.viewport_size["height"]
    for _ in range(len(found) + 1):
        page.keyboard.press("j")
    page.wait_for_selector(f"#{found[-1]}.here", timeout=TIMEOUT_MS)
    page.keyboard.press("?")
    assert "search result" in page.locator("dialog.help dd").first.inner_text()
    for key in ("Escape", "]", "g", ".", "p", "e", "y"):
        page.keyboard.press(key)  # shortcuts of the whole trace do nothing here
    assert page.locator(".here").get_attribute("id") == found[-1]
    assert page.console_errors == []


def test_tabs_load_when_they_are_opened_and_stay(open_page, served_world):
    run = served_world.passed(TASK, "tuner", 2.1, rounds=3)
    page = open_page(f"/runs/{run.pk}/")
    panels = {name: page.locator(f"#tab-{name}") for name in ("trace", "code", "results")}
    assert panels["results"].is_visible() and page.locator("#cases").is_visible()
    assert panels["trace"].inner_html() == panels["code"].inner_html() == ""
    requested = []
    page.on("request", lambda request: requested.append(request.url))
    for name, text in (("code", "round 3: lanes"), ("trace", "lanes"), ("code", "lanes")):
        page.click(f".tabs a[data-tab={name}]")
        panels[name].locator(f"text={text}").first.wait_for(timeout=TIMEOUT_MS)
        assert page.url.endswith(f"?tab={name}") and panels["results"].is_hidden()
        assert page.locator(".tabs [aria-current]").get_attribute("data-tab") == name
    assert [url.rpartition("?")[2] for url in requested if "tab=" in url] == [
        "tab=code",
        "tab=trace",
    ]
    page.go_back()
    panels["trace"].wait_for(timeout=TIMEOUT_MS)
    page.reload()
    panels["trace"].locator(".event").first.wait_for(timeout=TIMEOUT_MS)
    assert page.console_errors == []


def test_link_to_an_event_opens_the_trace_of_a_finished_run(open_page, served_world):
    run = served_world.passed(TASK, "tuner", 2.1, rounds=3)
    page = open_page(f"/runs/{run.pk}/#e7")
    page.wait_for_selector("#e7.here", timeout=TIMEOUT_MS)
    page.goto(f"{page.url.partition('#')[0]}#cases")
    page.wait_for_selector("#cases", timeout=TIMEOUT_MS)
    assert page.locator("#tab-trace").is_hidden()


def test_tabs_of_a_live_run_are_up_to_date_when_they_open(open_page, served_world):
    run = served_world.start(TASK, "tuner")
    page = open_page(f"/runs/{run.pk}/?tab=results")
    page.wait_for_selector('[data-connection][data-state="live"]', timeout=TIMEOUT_MS)
    served_world.round(run, 1, "passed", 1.6)
    page.wait_for_selector("#rounds >> text=1.60×", timeout=TIMEOUT_MS)
    page.click(".tabs >> text=Trace")
    page.wait_for_selector(".event[data-kind=span_end] >> text=best so far", timeout=TIMEOUT_MS)
    served_world.round(run, 2, "passed", 1.9)
    page.wait_for_selector("#outline >> text=Round 2", timeout=TIMEOUT_MS)
    shown = page.eval_on_selector_all(".event", "them => them.map(it => Number(it.dataset.seq))")
    assert shown == sorted(set(shown))
    page.click(".tabs >> text=Results")
    page.wait_for_selector("#rounds >> text=1.90×", timeout=TIMEOUT_MS)
    assert page.console_errors == []


def test_long_text_of_an_event_is_read_when_its_fold_is_opened(open_page, served_world, in_thread):
    run = served_world.start(TASK, "tuner")
    body = {"tool": "g++", "ok": True, "duration_ms": 1.0, "text": "vfmadd231ps <ymm0>\n" * 200}
    in_thread(services).record(run.pk, [EventDraft("compiler_output", body)], producer="test")
    page = open_page(f"/runs/{run.pk}/")
    assert "vfmadd231ps" not in page.content()
    page.click("summary:has-text('Compiler output')")
    page.wait_for_selector("pre:has-text('vfmadd231ps <ymm0>')", timeout=TIMEOUT_MS)
    plain = open_page(f"/runs/{run.pk}/", java_script_enabled=False)
    plain.click("summary:has-text('Compiler output')")
    plain.click("text=Show all of it")
    plain.click("summary:has-text('Compiler output')")
    assert plain.locator("pre:has-text('vfmadd231ps <ymm0>')").first.is_visible()
