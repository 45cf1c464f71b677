"""Tests of the run page in a real browser: on a phone, in print, by keyboard."""

from __future__ import annotations

import re

import pytest

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
