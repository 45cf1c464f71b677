"""A test of a trace of 100,000 events in a real browser: it opens at its end, and stays small."""

from __future__ import annotations

import sys

import pytest

from arena.runs.models import Event, Run
from tests.waiting import until
from tests.web.conftest import TIMEOUT_MS

TASK = "rms_norm/cpp-to-cpp"
EVENTS = 100_000
TURN = 50
"""Events from the begin of a turn to the next."""
MAX_ROWS = 3000
MAX_GROWTH = 2.0
"""Of nodes and of the heap, from the first screen to the end of the journey."""
WHEELS = 40

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def lengthen(run: Run) -> None:
    """Add events up to EVENTS, as an agent would record them."""
    run.refresh_from_db()
    begin = run.last_seq + 1
    rows = (
        Event(run=run, seq=seq, event_id=f"turn-{seq}", kind="span_begin", actor="agent", t_ms=seq,
              body={"span_kind": "turn", "title": f"Turn {seq // TURN}", "scope": "", "note": "",
                    "round": None, "files": {}, "content_hash": ""})
        if seq % TURN == 0
        else Event(run=run, seq=seq, event_id=f"#{seq}", kind="log", actor="agent", t_ms=seq,
                   body={"text": f"line {seq} " + "tile " * (seq % 23), "level": "info",
                         "stream": ""})
        for seq in range(begin, EVENTS + 1)
    )  # fmt: skip
    Event.objects.bulk_create(rows, batch_size=5000)
    Run.objects.filter(pk=run.pk).update(last_seq=EVENTS)


def size(session) -> dict[str, float]:
    """Return the nodes and the bytes that a page holds once garbage is collected."""
    session.send("HeapProfiler.collectGarbage")
    metrics = session.send("Performance.getMetrics")["metrics"]
    return {each["name"]: each["value"] for each in metrics}


def test_trace_of_100_000_events_stays_small_from_end_to_start_and_back(
    open_page, served_world, in_thread
):
    run = served_world.start(TASK, "scripted")
    in_thread(sys.modules[__name__]).lengthen(run)
    page = open_page(f"/runs/{run.pk}/")
    newest = f"#e{EVENTS}"
    page.wait_for_selector(newest, timeout=TIMEOUT_MS)
    paint = "performance.getEntriesByType('paint').at(-1).startTime"
    first_ms = page.evaluate(f"() => {paint}")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    before = size(session)

    def rows() -> int:
        return page.locator(".event").count()

    for key, seq in (("g", 1), ("G", EVENTS)):
        page.keyboard.press(key)
        page.wait_for_selector(f"#e{seq}.here", timeout=TIMEOUT_MS)
        for _ in range(WHEELS):
            page.mouse.wheel(0, 3000 if key == "g" else -3000)
            assert rows() < MAX_ROWS
        until(lambda: rows() > 0, "rows in view")
    for share in (0.75, 0.5, 0.25):
        seq = int(EVENTS * share)
        page.goto(f"{page.url.partition('?')[0]}?at={seq}#e{seq}")
        page.wait_for_selector(f"#e{seq}.here", timeout=TIMEOUT_MS)
        assert rows() < MAX_ROWS
    after = size(session)
    figures = {name: (before[name], after[name]) for name in ("Nodes", "JSHeapUsedSize")}
    print({"first_paint_ms": first_ms, "rows": rows(), **figures})
    for name in figures:
        assert after[name] < MAX_GROWTH * before[name] + 5e6 * (name != "Nodes"), (before, after)
    assert page.console_errors == []
