"""Tests of the workspace of a run in a real browser: the pane, the chosen time and keys."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db.models import F

from arena.runs import services
from arena.runs.trace.events import EventDraft
from tests.web.conftest import PHONE, TIMEOUT_MS

TASK = "rms_norm/cpp-to-cpp"
PACE = 10_000
"""Milliseconds from event to event."""
USAGE = {"input_tokens": 3000, "output_tokens": 500}

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def run(served_world):
    run = served_world.passed(TASK, "tuner", 2.1, rounds=3)
    run.events.update(t_ms=F("seq") * PACE)
    return run


def query(page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def times(page, but: str = "") -> list[int]:
    return page.eval_on_selector_all(f".event{but}", "them => them.map(it => Number(it.dataset.t))")


def pane(page, seq: int) -> str:
    page.wait_for_selector(f"#inspector h2 >> text=Event {seq}", timeout=TIMEOUT_MS)
    return page.inner_text("#inspector")


def drag(page, area: str, begin: float, end: float) -> None:
    """Drag over an area from one share of the width of its lanes to another."""
    box = page.locator(f"{area} .brush").bounding_box()
    y = page.locator(f"{area} .lane").first.bounding_box()["y"] + 2
    page.mouse.move(box["x"] + begin * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + (begin + end) / 2 * box["width"], y + 1)
    page.mouse.move(box["x"] + end * box["width"], y)
    page.mouse.up()


def test_chosen_event_shows_its_record_and_figures_in_the_pane(open_page, served_world, in_thread):
    run = served_world.start(TASK, "tuner")
    call = {"provider": "p", "wire": "messages", "model": "m", "cost_usd": 0.25, "usage": USAGE}
    drafts = [
        EventDraft("span_begin", {"span_kind": "turn", "title": "Turn eleven"}, id="t"),
        EventDraft("model_call", call, id="c1"),
        EventDraft("model_call", call, id="c2"),
        EventDraft("log", {"text": "<script>document.title = 1</script>"}),
    ]
    last = in_thread(services).record(run.pk, drafts, producer="test")
    run.events.update(t_ms=F("seq") * PACE)
    page = open_page(f"/runs/{run.pk}/?tab=trace")
    page.wait_for_selector("#inspector >> text=No event chosen", timeout=TIMEOUT_MS)
    page.click(f"#e{last - 2} .kind")
    shown = pane(page, last - 2)
    assert "Turn eleven" in shown and "3000 in, 500 out" in shown.replace("\u202f", "").replace(
        ",0", "0"
    )
    assert shown.count("$0.25") == 2, "of the call, and by then"
    page.keyboard.press("G")
    shown = pane(page, last)
    assert "tokens of this call" not in shown and "$0.50" in shown
    raw = json.loads(page.inner_text("#inspector pre"))
    assert raw["seq"] == last and raw["body"]["text"] == drafts[3].body["text"]
    page.click("#inspector [data-copy-link]")
    page.wait_for_function(f"() => location.hash === '#e{last}'")
    page.click("#inspector >> text=Open alone")
    page.wait_for_selector(f"h1 >> text=Event {last}", timeout=TIMEOUT_MS)
    assert "$0.50" in page.inner_text(".facts")
    assert page.console_errors == []


@pytest.fixture
def open_as_staff(open_page, in_thread, server):
    """Return a function that opens the trace of a run as a member of the staff."""

    def open_trace(run):
        password = PBKDF2PasswordHasher().encode("builder", "salt")  # the server takes no quick one
        in_thread(get_user_model()(username="bob", password=password, is_staff=True)).save()
        page = open_page(f"/login/?next=/runs/{run.pk}/%3Ftab=trace")
        page.fill("[name=username]", "bob")
        page.fill("[name=password]", "builder")
        page.keyboard.press("Enter")
        page.wait_for_selector("[data-expand]", timeout=TIMEOUT_MS)  # which scripts show
        return page

    return open_trace


def test_note_on_the_chosen_event_is_added_in_the_pane(open_as_staff, run):
    page = open_as_staff(run)
    page.click("#e7 .kind")
    pane(page, 7)
    page.click("#inspector >> text=Add a note")
    page.check("#inspector [value=interesting]")
    page.fill("#inspector [name=text]", "It reads the clock <b>.")
    page.click("#inspector >> text=Save the note")
    page.wait_for_selector("#inspector .notes >> text=It reads the clock <b>.", timeout=TIMEOUT_MS)
    assert query(page)["at"] == ["7"] and page.console_errors == []


def test_pane_of_a_call_has_its_result_once_that_comes_unless_a_note_is_being_written(
    open_as_staff, served_world, in_thread
):
    run = served_world.start(TASK, "tuner")
    record = in_thread(services).record
    call = EventDraft("tool_call", {"tool": "bash", "arguments": {}}, id="c")
    seq = record(run.pk, [call], producer="test")
    page = open_as_staff(run)
    page.click(f"#e{seq} .kind")
    assert "its result" not in pane(page, seq)
    result = EventDraft("tool_result", {"call": "c", "ok": True, "output": "its result"}, id="r")
    record(run.pk, [result], producer="test")
    page.wait_for_selector("#inspector pre >> text=its result", timeout=TIMEOUT_MS)
    page.click("#inspector >> text=Add a note")
    page.fill("#inspector [name=text]", "It waits.")
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    again = EventDraft("tool_result", {**result.body, "output": "another"}, id="r")
    record(run.pk, [again], producer="test")
    page.wait_for_selector(f"#e{seq} >> text=another", timeout=TIMEOUT_MS, state="attached")
    last = record(run.pk, [EventDraft("log", {"text": "later"})], producer="test")
    page.wait_for_selector(f"#e{last}", timeout=TIMEOUT_MS)
    assert page.input_value("#inspector [name=text]") == "It waits."
    assert not [url for url in loaded if "/inspector/" in url]


def test_pane_of_an_event_is_complete_without_javascript(open_page, run):
    page = open_page(f"/runs/{run.pk}/?tab=trace", java_script_enabled=False)
    page.click("#e7 .seq")
    assert "Event 7" in page.inner_text("#inspector h2")
    assert '"seq": 7' in page.inner_text("#inspector pre")


def test_range_dragged_over_the_lanes_is_in_the_link_and_chooses_events(open_page, run):
    ends = run.last_seq * PACE
    page = open_page(f"/runs/{run.pk}/?tab=trace")
    page.wait_for_selector("#waterfall .lanes", timeout=TIMEOUT_MS)
    drag(page, "[data-timespan]", 0.25, 0.5)
    page.wait_for_selector("#trace >> text=A number leads", timeout=TIMEOUT_MS)
    begin, end = (1000 * float(query(page)[name][0]) for name in ("begin", "end"))
    assert abs(begin - 0.25 * ends) < 0.02 * ends and abs(end - 0.5 * ends) < 0.02 * ends
    chosen = times(page, ":not([data-kind=tool_call], [data-kind=span_begin])")
    assert chosen and min(chosen) >= begin and max(chosen) <= end, "but of what began before"
    assert len(chosen) < run.last_seq / 2
    drawn = page.locator("[data-timespan] .brush rect").bounding_box()
    lanes = page.locator("[data-timespan] .brush").bounding_box()
    assert abs(drawn["width"] / lanes["width"] - 0.25) < 0.03
    page.click(".chip.edits")
    page.wait_for_selector(".chip.edits[aria-current]", timeout=TIMEOUT_MS)
    assert {"begin", "end", "show"} <= query(page).keys()
    address = page.url
    page.reload()
    assert page.url == address
    page.click("summary.chip")
    page.click(".range >> text=All of the time")
    page.wait_for_selector("summary.chip >> text=/^time$/", timeout=TIMEOUT_MS)
    assert query(page)["show"] == ["edits"] and "begin" not in query(page)
    for _ in range(3):
        page.go_back()
    page.wait_for_selector("[data-stream]", timeout=TIMEOUT_MS)
    assert page.console_errors == []


def test_range_is_chosen_by_a_form_without_javascript(open_page, run):
    page = open_page(f"/runs/{run.pk}/?tab=trace", java_script_enabled=False)
    page.click("summary.chip")
    page.fill("[data-range] [name=begin]", "50")
    page.fill("[data-range] [name=end]", "120.5")
    page.click("[data-range] button")
    assert "from 0:50.0 to 2:00.5" in page.inner_text("#trace [role=status]")
    assert set(times(page)) <= set(range(4 * PACE, 13 * PACE, PACE))
    drawn = page.locator("[data-timespan] .brush rect").bounding_box()
    lanes = page.locator("[data-timespan] .brush").bounding_box()
    assert abs(drawn["width"] / lanes["width"] - 70_500 / (run.last_seq * PACE)) < 0.02


def test_strip_of_the_lanes_stays_in_view_and_follows_the_reader(open_page, run):
    page = open_page(f"/runs/{run.pk}/?tab=trace")
    page.wait_for_selector("#waterfall .lanes", timeout=TIMEOUT_MS)
    assert page.locator("[data-strip]").is_hidden()
    page.keyboard.press("G")
    page.wait_for_selector("[data-strip] .lane.measure", timeout=TIMEOUT_MS)
    strip, head = (
        page.locator(each).bounding_box() for each in ("[data-strip] > div", "#run-head")
    )
    assert abs(strip["y"] - head["y"] - head["height"]) < 2 and strip["height"] < 40
    line = "() => parseFloat(document.querySelector('[data-strip] .at').getAttribute('x1')) > 99"
    page.wait_for_function(line, timeout=TIMEOUT_MS)
    drag(page, "[data-strip]", 0.5, 0.75)
    page.wait_for_selector("#trace >> text=A number leads", timeout=TIMEOUT_MS)
    assert float(query(page)["begin"][0]) > 0.4 * run.last_seq * PACE / 1000
    assert page.console_errors == []


def test_replay_at_the_start_shows_no_event_of_the_end_in_the_pane(open_page, run):
    page = open_page(f"/runs/{run.pk}/?tab=trace")
    page.keyboard.press("G")
    pane(page, run.last_seq)
    page.locator("[data-replay-open]").click()
    page.locator("[data-play]").click()
    page.locator("[data-at]").fill(str(2 * PACE))
    assert "Event 2" in pane(page, 2) and f'"seq": {run.last_seq}' not in pane(page, 2)
    assert page.locator("[data-strip]").is_hidden()
    assert page.console_errors == []


def test_run_is_read_by_keys_alone(open_page, run):
    page = open_page(f"/runs/{run.pk}/?tab=results")
    active = "document.activeElement"

    def tab_to(selector: str, most: int = 60) -> None:
        for _ in range(most):
            page.keyboard.press("Tab")
            if page.evaluate(f"{active}.matches({selector!r})"):
                return
        raise AssertionError(f"Tab does not reach {selector}")

    page.keyboard.press("Tab")
    assert page.evaluate(f"{active}.className") == "skip"
    page.keyboard.press("Enter")
    tab_to(".tabs a[data-tab=trace]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#outline a[data-stop][tabindex='0']", timeout=TIMEOUT_MS)
    tab_to("#trace input[type=search]")
    tab_to(".chips a")
    tab_to("#outline a[data-stop]")
    stops = page.eval_on_selector_all(
        "#outline a[data-stop]", "them => them.map(it => it.dataset.seq)"
    )
    at = stops.index(page.evaluate(f"{active}.dataset.seq"))
    for key, expected in (
        ("Home", 0),
        ("ArrowDown", 1),
        ("ArrowDown", 2),
        ("ArrowUp", 1),
        ("End", -1),
    ):
        page.keyboard.press(key)
        page.wait_for_function(f"() => {active}.dataset.seq === '{stops[expected]}'")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.wait_for_function(f"() => {active}.dataset.seq === '{stops[1]}'")
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => {active}.matches('#e{stops[1]} .seq')", timeout=TIMEOUT_MS)
    assert query(page)["at"] == [stops[1]] and at >= 0
    pane(page, int(stops[1]))
    page.keyboard.press("o")
    page.wait_for_function(f"() => {active}.dataset.seq === '{stops[1]}'")
    page.keyboard.press("Tab")
    assert page.evaluate(f"{active}.closest('.stream') !== null"), "one stop of the Tab key"
    page.keyboard.press("Shift+Tab")
    page.wait_for_function(f"() => {active}.matches('#outline a[data-stop]')")
    assert page.console_errors == []


def test_arrow_keys_reach_stops_beyond_the_window_of_the_outline(open_page, served_world):
    run = served_world.long(TASK, "scripted", 9000)
    page = open_page(f"/runs/{run.pk}/")
    page.wait_for_selector("#outline [data-earlier]", timeout=TIMEOUT_MS)
    beyond = page.get_attribute("#outline [data-earlier]", "data-seq")
    page.keyboard.press("o")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowUp")
    page.wait_for_function(
        f"() => document.activeElement.dataset.seq === '{beyond}'", timeout=TIMEOUT_MS
    )
    assert page.console_errors == []


def test_pane_on_a_phone_is_the_page_of_the_event(open_page, run):
    page = open_page(f"/runs/{run.pk}/?tab=trace", PHONE)
    page.click("[data-fold][aria-pressed=true]")
    requested = []
    page.on("request", lambda request: requested.append(request.url))
    page.click("#e7 .kind")
    page.wait_for_selector("#e7.here", timeout=TIMEOUT_MS)
    assert page.locator("#inspector").is_hidden()
    page.click("#e7 .when")
    page.wait_for_selector("h1 >> text=Event 7", timeout=TIMEOUT_MS)
    assert not [url for url in requested if "/inspector/" in url]
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
