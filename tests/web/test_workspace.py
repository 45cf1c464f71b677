"""Tests of the trace as a workspace in a real browser: lanes, outline, chips, search, replay."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db.models import F

from arena.runs import services
from arena.runs.trace.events import EventDraft
from tests.web.conftest import PHONE, TIMEOUT_MS

TASK = "rms_norm/cpp-to-cpp"
PACE = 10_000
"""Milliseconds from event to event."""

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def run(served_world):
    run = served_world.passed(TASK, "tuner", 2.1, rounds=3)
    run.events.update(t_ms=F("seq") * PACE)
    return run


def query(page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def kinds(page) -> set[str]:
    return set(page.eval_on_selector_all(".event", "them => them.map(it => it.dataset.kind)"))


def test_bar_of_a_lane_leads_to_its_event(open_page, run):
    page = open_page(f"/runs/{run.pk}/?tab=trace")
    link = page.locator("#waterfall .lane.measure a").first
    seq = parse_qs(urlsplit(link.get_attribute("href")).query)["at"][0]
    link.locator("rect").click()
    page.wait_for_selector(f"#e{seq}.here", timeout=TIMEOUT_MS)
    assert query(page)["at"] == [seq]
    assert page.console_errors == []


def test_outline_follows_scrolling_and_reaches_every_turn_of_very_many(open_page, served_world):
    run = served_world.long(TASK, "scripted", 15_000)
    page = open_page(f"/runs/{run.pk}/")
    page.wait_for_selector(".event", timeout=TIMEOUT_MS)
    first = page.locator("#outline a[data-stop]").first
    assert first.inner_text().startswith("Turn 1"), "the newest window of them"
    seen = set()
    while True:
        seen |= set(
            page.locator("#outline a[data-stop]").evaluate_all(
                "them => them.map(it => it.dataset.seq)"
            )
        )
        earlier = page.locator("#outline [data-earlier]")
        if not earlier.count():
            break
        wanted = earlier.get_attribute("data-seq")
        earlier.click()
        page.wait_for_selector(
            f"#outline a[data-stop][data-seq='{wanted}'][aria-current]", timeout=TIMEOUT_MS
        )
    assert len(seen) == 300
    page.goto(f"{page.url.partition('?')[0]}?at=7004#e7004")
    page.wait_for_selector("#e7004.here", state="attached", timeout=TIMEOUT_MS)
    page.wait_for_selector("#outline [aria-current] >> text=Turn 141", timeout=TIMEOUT_MS)
    page.wait_for_selector('[data-connection][data-state="live"]', timeout=TIMEOUT_MS)
    assert page.locator("#outline[data-held] >> text=Turn 141").count(), "also while it goes on"
    page.mouse.move(640, 600)
    page.mouse.wheel(0, 4000)
    page.wait_for_function(
        "() => Number(document.querySelector('#outline [aria-current]')?.dataset.seq) > 7052",
        timeout=TIMEOUT_MS,
    )
    page.keyboard.press("g")
    page.wait_for_selector("#e1.here", timeout=TIMEOUT_MS)
    page.keyboard.press("j")
    page.wait_for_selector("#e3.here", timeout=TIMEOUT_MS)
    page.wait_for_selector("#outline [data-seq='3'][aria-current]", timeout=TIMEOUT_MS)
    assert page.console_errors == []


def test_chips_and_search_keep_their_link_and_go_back(open_page, run):
    page = open_page(f"/runs/{run.pk}/?tab=trace")
    page.click(".chip.edits")
    page.wait_for_selector(".chip.edits[aria-current]", timeout=TIMEOUT_MS)
    assert query(page)["show"] == ["edits"] and kinds(page) == {"file_edit"}
    page.click(".chip.profiler")
    page.wait_for_selector(".chip.profiler[aria-current]", timeout=TIMEOUT_MS)
    assert query(page)["show"] == ["edits,profiler"]
    assert kinds(page) == {"file_edit", "profiler_output"}
    page.fill("input[type=search]", "lanes")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-found=lanes]", timeout=TIMEOUT_MS)
    assert query(page) == {"tab": ["trace"], "show": ["edits,profiler"], "q": ["lanes"]}
    assert kinds(page) == {"file_edit"} and page.locator(".event mark").count() > 0
    hits = page.locator(".outline a[data-hit]")
    assert hits.count() == page.locator(".event").count() > 1
    hits.nth(1).click()
    address = page.url
    page.reload()
    assert page.url == address and kinds(page) == {"file_edit"}
    for _ in range(2):
        page.go_back()
    page.wait_for_selector(".chip.profiler[aria-current]", timeout=TIMEOUT_MS)
    page.wait_for_selector(".event[data-kind=profiler_output]", timeout=TIMEOUT_MS)
    page.click(".chip >> nth=0")
    page.wait_for_selector("[data-stream]", timeout=TIMEOUT_MS)
    page.wait_for_selector(".event[data-kind=gate_result]", timeout=TIMEOUT_MS)
    assert page.console_errors == []


def test_chips_on_a_phone_are_at_equal_distances(open_page, run):
    page = open_page(f"/runs/{run.pk}/?tab=trace", PHONE)
    gaps = page.locator(".chips .chip").evaluate_all(
        """them => them.map(it => it.getBoundingClientRect()).flatMap((box, n, all) =>
            n && box.top === all[n - 1].top ? [box.left - all[n - 1].right] : [])"""
    )
    assert gaps and max(gaps) - min(gaps) < 1


def test_chips_work_without_javascript(open_page, run):
    page = open_page(f"/runs/{run.pk}/?tab=trace", java_script_enabled=False)
    assert page.locator("[data-seek]").first.is_hidden()
    page.click(".chip.errors")
    page.click(".chip.edits")
    assert query(page)["show"] == ["errors,edits"] and "file_edit" in kinds(page)
    assert page.locator(".event.bad").count() > 0


def test_buttons_lead_to_the_next_error_and_the_next_edit(open_page, run):
    page = open_page(f"/runs/{run.pk}/?tab=trace")
    page.keyboard.press("g")
    page.wait_for_selector("#e1.here", timeout=TIMEOUT_MS)
    page.click("[data-seek=edits]")
    page.wait_for_selector(".here[data-kind=file_edit]", timeout=TIMEOUT_MS)
    first = page.locator(".here").get_attribute("data-seq")
    page.keyboard.press("d")
    page.wait_for_selector(f".here[data-kind=file_edit]:not(#e{first})", timeout=TIMEOUT_MS)
    page.keyboard.press("D")
    page.wait_for_selector(f"#e{first}.here", timeout=TIMEOUT_MS)
    page.keyboard.press("n")
    page.wait_for_selector(".here.bad", timeout=TIMEOUT_MS)
    page.click("[data-expand]")
    assert page.locator(".stream details:not([open]):not([data-more])").count() == 0
    assert page.console_errors == []


def test_trace_folds_to_turns_which_open_what_belongs_to_them(open_page, run):
    page = open_page(f"/runs/{run.pk}/?tab=trace")
    shown = ".event:visible"
    every = page.locator(shown).count()
    page.click("[data-fold]")
    heads = page.locator(shown).count()
    assert 0 < heads < every / 2
    assert page.get_attribute("[data-fold]", "aria-pressed") == "true"
    page.locator(
        '.event[data-kind="span_begin"]:has(+ [data-kind="gate_result"]) > .kind'
    ).first.click()
    assert page.locator(shown).count() > heads
    hidden = page.locator('.event[data-kind="gate_result"]:not(.unfolded)').last
    seq = hidden.get_attribute("data-seq")
    page.goto(f"{page.url.partition('#')[0]}#e{seq}")
    page.wait_for_selector(f"#e{seq}", state="visible", timeout=TIMEOUT_MS)
    page.keyboard.press("f")
    assert page.locator(shown).count() == every
    assert page.console_errors == []


def test_replay_at_the_start_shows_no_result(open_page, run):
    page = open_page(f"/runs/{run.pk}/?tab=trace")
    page.locator("[data-replay-open]").click()
    page.locator("[data-play]").click()
    results = re.compile(r"[0-9]×|passed|✕|failed")
    for at in (0, 3 * PACE):
        page.locator("[data-at]").fill(str(at))
        page.wait_for_selector("#now [data-verdict=running], #now [data-verdict=queued]")
        page.wait_for_selector("[data-past=shown]", timeout=TIMEOUT_MS)
        head = page.inner_text("#run-head") + page.inner_text("#notices")
        assert not results.search(head), head
        assert not results.search(page.inner_text("#outline"))
        assert page.locator(".lane-sum >> visible=true").count() == 0
        assert page.locator("#waterfall .lane.best a:not([hidden])").count() == 0
    page.click(".tabs >> text=Results")
    page.wait_for_selector("#rounds", timeout=TIMEOUT_MS)
    assert not results.search(page.inner_text("#tab-results"))
    page.click(".tabs >> text=Trace")
    page.locator("[data-at]").fill(str(run.last_seq * PACE))
    page.wait_for_selector("#now [data-verdict=passed]", timeout=TIMEOUT_MS)
    page.locator("[data-whole]").click()
    page.wait_for_selector("body:not([data-past])", timeout=TIMEOUT_MS)
    assert "1.78×" in page.inner_text("#run-head")
    page.click(".tabs >> text=Results")
    page.wait_for_selector("#cases >> text=12/12 correct", timeout=TIMEOUT_MS)
    assert page.console_errors == []


def test_edit_on_an_open_page_learns_the_verdict_it_led_to(open_page, served_world):
    run = served_world.start(TASK, "tuner")
    served_world.round(run, 1, "passed", 1.2)
    page = open_page(f"/runs/{run.pk}/")
    page.wait_for_selector('[data-connection][data-state="live"]', timeout=TIMEOUT_MS)
    page.wait_for_selector(".outcome >> text=1.20×", timeout=TIMEOUT_MS)
    served_world.round(run, 2, "passed", 1.6)
    page.wait_for_selector(".outcome >> text=1.20× → 1.60×", timeout=TIMEOUT_MS)
    page.click(".outcome >> nth=-1 >> a")
    page.wait_for_selector(".here[data-kind=span_end]", timeout=TIMEOUT_MS)
    assert page.console_errors == []


def test_counts_of_chips_grow_with_a_live_run(open_page, served_world, in_thread):
    run = served_world.start(TASK, "tuner")
    write = in_thread(services).record
    write(run.pk, [EventDraft("error", {"message": "first"})], producer="test")
    page = open_page(f"/runs/{run.pk}/")
    page.wait_for_selector('[data-connection][data-state="live"]', timeout=TIMEOUT_MS)
    assert page.inner_text(".chip.errors .num") == "1"
    write(run.pk, [EventDraft("error", {"message": "second"})], producer="test")
    page.wait_for_selector(".chip.errors .num >> text=2", timeout=TIMEOUT_MS)
    assert page.console_errors == []


def test_hostile_texts_are_harmless_in_every_view(open_page, served_world, in_thread):
    evil = '<img src=x onerror="document.title=1">\x1b[31m</td></details><script>'
    run = served_world.start(TASK, "tuner")
    diff = f"--- a\n+++ b\n@@ -1,1 +1,1 @@\n-int a; {evil}\n+int b; {evil}\n"
    drafts = [
        EventDraft("message", {"role": "assistant", "text": f"# {evil}\n\n`{evil}`"}),
        EventDraft("tool_call", {"tool": evil, "arguments": {"command": evil}}, id="agent-c"),
        EventDraft("tool_result", {"call": "agent-c", "ok": False, "output": evil * 100}),
        EventDraft("file_edit", {"path": f"{evil}.cpp", "operation": "modify", "diff": diff}),
        EventDraft("span_begin", {"span_kind": "subagent", "title": evil}, id="agent-s-begin"),
    ]
    in_thread(services).record(
        run.pk,
        drafts,
        producer="test",
    )
    title = None
    chosen = "?at=4&begin=0&end=99999#e4"
    for address in ("", chosen, "?show=errors,edits,tools,messages", "?q=onerror", "events/3/"):
        page = open_page(f"/runs/{run.pk}/{address}")
        page.wait_for_selector(".event", timeout=TIMEOUT_MS)
        assert page.locator("main img, main script").count() == 0, address
        assert "onerror" in page.inner_text("main")
        title = page.title()
        assert title != "1" and page.console_errors == [], address


def test_code_tab_draws_the_bars_of_rounds_as_the_page_of_a_round_does(open_page, run):
    sizes = []
    for address in ("?tab=code", "rounds/1/"):
        page = open_page(f"/runs/{run.pk}/{address}")
        page.wait_for_selector(".round-bars", timeout=TIMEOUT_MS)
        sizes.append(page.locator(".round-bars").bounding_box())
    assert sizes[0]["height"] == sizes[1]["height"] > 0


def test_workspace_on_a_phone_has_no_sideways_scrolling(open_page, run):
    for address in ("?tab=trace", "?show=edits", "?q=lanes", "?tab=code", "?tab=profile", ""):
        page = open_page(f"/runs/{run.pk}/{address}", PHONE)
        page.wait_for_selector(".tab:not([hidden])", timeout=TIMEOUT_MS)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, address
        assert page.console_errors == []


def test_trace_of_an_ended_run_is_folded_on_a_phone_and_opens_at_the_event_of_its_address(
    open_page, run
):
    whole = open_page(f"/runs/{run.pk}/?tab=trace")
    whole.wait_for_selector(".event", timeout=TIMEOUT_MS)
    events = whole.locator(".event:visible").count()
    last = whole.locator(".event:not([data-kind=span_begin], [data-kind=message])").last
    seq = last.get_attribute("data-seq")
    page = open_page(f"/runs/{run.pk}/?tab=trace", PHONE)
    page.wait_for_selector("[data-fold][aria-pressed=true]", timeout=TIMEOUT_MS)
    assert 0 < page.locator(".event:visible").count() < events / 2
    page.goto(f"{page.url.partition('?')[0]}?at={seq}#e{seq}")
    page.wait_for_selector(f"#e{seq}.here", timeout=TIMEOUT_MS)
    assert page.locator(f"#e{seq}").is_visible()
    page.click("[data-fold]")
    page.wait_for_selector("[data-fold][aria-pressed=false]", timeout=TIMEOUT_MS)
    assert page.locator(".event:visible").count() == events
    assert page.console_errors == []


def test_trace_without_a_turn_is_not_folded_away_on_a_phone(open_page, served_world):
    run = served_world.broken(TASK, "tuner")
    page = open_page(f"/runs/{run.pk}/?tab=trace", PHONE)
    page.wait_for_selector("[data-fold][aria-pressed=true]", timeout=TIMEOUT_MS)
    rows = page.locator(".event")
    assert 0 < rows.count() == page.locator(".event:visible").count()
    outline = page.locator("nav", has_text="No turn or round").inner_text()
    assert outline.endswith("No turn or round.")


def test_picture_of_a_whole_run_shows_its_last_row(open_page, run):
    page = open_page(f"/runs/{run.pk}/?tab=trace")
    page.wait_for_selector(f"#e{run.last_seq - 3}, .event:last-child", timeout=TIMEOUT_MS)
    last = page.locator(".event > .kind").last
    shown = last.evaluate("row => row.checkVisibility({ contentVisibilityAuto: true })")
    assert shown and last.bounding_box()["y"] > page.viewport_size["height"], "far below the view"
