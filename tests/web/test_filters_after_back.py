"""Browser tests that filters show what the address asks for after the browser's Back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.arena import production, published
from tests.web.conftest import TIMEOUT_MS

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]
SHOWN = """(form) => [...form.elements]
    .filter((field) => field.name).map((field) => [field.name, field.value, field.disabled])"""
RESTORED = "dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))"
"""The event of a page that a browser kept whole; under Playwright it keeps none."""


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/leaderboard/?task_set=all", "track"),
        ("/runs/", "status"),
        ("/tasks/", "category"),
        ("/claims/", "outcome"),
        ("/analysis/", "hardware"),
        ("/production/", "family"),
    ],
)
def test_filters_show_what_the_address_asks_for_after_back(
    open_page: Any, served_world: Any, in_thread: Any, tmp_path: Any, path: str, name: str
) -> None:
    served_world.passed("rms_norm/cpp-to-cpp", "tuner", 2.1, rounds=1)
    in_thread(published).load_claims(tmp_path, published.one_of_each_outcome())
    in_thread(production).production_run("tuner", "llama_rms_norm")
    page = open_page(path)
    form, field = page.locator("form[data-auto]"), page.locator(f"form[data-auto] [name={name}]")
    before, address = form.evaluate(SHOWN), page.url

    field.select_option(index=field.locator("option").count() - 1)
    page.wait_for_url(f"**{name}=**", timeout=TIMEOUT_MS)
    assert form.evaluate(SHOWN) != before
    page.go_back()
    page.wait_for_url(address, timeout=TIMEOUT_MS)
    assert form.evaluate(SHOWN) == before

    field.evaluate("(field) => { field.selectedIndex = field.length - 1; }")
    page.evaluate(RESTORED)
    assert form.evaluate(SHOWN) == before
    assert page.console_errors == []


def test_words_that_narrowed_a_list_are_kept_with_the_page(
    open_page: Any, served_world: Any
) -> None:
    page = open_page("/tasks/")
    words = page.locator("form[data-auto] [type=search]")
    words.fill("rms")
    page.wait_for_url("**=rms", timeout=TIMEOUT_MS)
    page.evaluate(RESTORED)
    assert words.input_value() == "rms"
