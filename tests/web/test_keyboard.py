"""Browser tests that the keyboard reaches navigation and filters, with a focus that is seen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.arena import published
from tests.web.conftest import DESK, PHONE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]
TASK = "rms_norm/cpp-to-cpp"
MAX_STOPS = 150
STOP = """() => {
    const at = document.activeElement, style = getComputedStyle(at);
    if (at === document.body) return null;
    const box = at.getBoundingClientRect();
    const reach = parseFloat(style.outlineOffset) + parseFloat(style.outlineWidth);
    let cut = style.outlineStyle === "none";
    for (let part = at.parentElement; part !== document.body; part = part.parentElement) {
        if (getComputedStyle(part).overflowX === "visible") continue;
        const edge = part.getBoundingClientRect();
        cut ||= box.left - reach < edge.left - 1 || box.right + reach > edge.right + 1;
    }
    const partOfDate = at.type === "date";  // its calendar has a ring of the browser
    return [at.name || at.textContent.trim() || at.ariaLabel, cut && !partOfDate];
}"""
"""The name of the focused element, and whether its ring is missing or cut; null at the end."""


def stops_of(page: Any) -> list[tuple[str, bool]]:
    found = []
    for _ in range(MAX_STOPS):
        page.keyboard.press("Tab")
        if (stop := page.evaluate(STOP)) is None:
            return found
        found.append(tuple(stop))
    return found


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_keyboard_reaches_navigation_and_filters_with_a_ring_that_is_whole(
    open_page: Any, served_world: Any, in_thread: Any, tmp_path: Any, viewport: dict[str, int]
) -> None:
    run = served_world.passed(TASK, "tuner", 2.1, rounds=2)
    in_thread(published).load_claims(tmp_path, published.one_of_each_outcome())
    for path, filters in {
        "/claims/": {"model", "outcome"},
        "/leaderboard/?task_set=all": {"category", "track"},
        f"/runs/{run.pk}/?tab=trace": {"q", "Results"},
    }.items():
        page = open_page(path, viewport)
        page.locator("details").evaluate_all("(all) => all.forEach((each) => (each.open = true))")
        stops = stops_of(page)
        names = {name for name, _ in stops}
        assert {"Tasks", "Method", *filters} <= names, path
        assert [name for name, cut in stops if cut] == [], path
