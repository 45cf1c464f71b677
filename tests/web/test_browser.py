"""Tests of pages in a real browser: live runs, charts, keyboard shortcuts, narrow screens."""

from __future__ import annotations

import itertools
import re

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db.models import F
from django.utils import timezone

from arena.catalog.models import Agent, Operator
from arena.runs import services
from arena.runs.models import Run
from arena.runs.trace.events import EventDraft
from tests.arena import production
from tests.waiting import until
from tests.web.conftest import DESK, PHONE, TIMEOUT_MS
from tests.web.world import LEASE

TASK = "rms_norm/cpp-to-cpp"
PACE = 10_000  # ms from event to event: a replay is not over before a busy machine pauses it
CUT_OFF = """[...document.querySelectorAll(".segments, .filters label")]
    .filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.textContent.trim())"""

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def record(in_thread):
    """Record drafts as events of a run and return the last seq."""
    write = in_thread(services).record
    return lambda run, *drafts: write(run.pk, drafts, producer="test")


def log(text: str) -> EventDraft:
    return EventDraft("log", {"text": text})


def seqs(page) -> list[int]:
    return page.eval_on_selector_all(".event", "rows => rows.map(row => Number(row.dataset.seq))")


def rows_of(run) -> list[int]:
    """Return the seq of each row of a trace; what is shown in another row has none."""
    events = list(run.events.order_by("seq"))
    calls = {each.event_id for each in events if each.kind == "tool_call"}

    def is_part(each) -> bool:
        match each.kind:
            case "tool_result":
                return each.body["call"] in calls
            case "metric":
                return each.body["name"] in ("speedup", "case_speedup")
            case "span_end":
                return each.body["span_kind"] == "turn"
        return False

    return [each.seq for each in events if not is_part(each)]


def state(page, name: str) -> None:
    page.wait_for_selector(f'[data-connection][data-state="{name}"]', timeout=TIMEOUT_MS)


def test_live_run_followed_through_a_crash_shows_each_event_once(
    open_page, server, served_world, record, in_thread
):
    run = served_world.start(TASK, "tuner")
    page = open_page(f"/runs/{run.pk}/")
    state(page, "live")
    record(run, log("one"), log("two"))
    page.wait_for_selector("text=two", timeout=TIMEOUT_MS)

    server.kill()
    state(page, "reconnecting")
    last = record(run, *(log(f"while nobody listened {n}") for n in range(230)))
    server.start()
    state(page, "live")
    page.wait_for_selector(f"#e{last}", timeout=TIMEOUT_MS)

    def scroll() -> bool:
        page.mouse.wheel(0, 1500)
        return seqs(page) == list(range(1, last + 1))

    page.keyboard.press("g")
    until(scroll, lambda: seqs(page))
    in_thread(services).finish_run(run.pk, LEASE, "failed", "Nothing was handed in.", "candidate")
    state(page, "ended")
    page.wait_for_selector("#notices >> text=Nothing was handed in.", timeout=TIMEOUT_MS)
    assert seqs(page) == list(range(1, last + 2))


def test_revision_on_an_open_page_replaces_its_row(open_page, served_world, record):
    run = served_world.start(TASK, "tuner")
    draft = EventDraft("tool_call", {"tool": "compile", "arguments": {"step": "begun"}}, id="c")
    seq = record(run, draft)
    page = open_page(f"/runs/{run.pk}/")
    state(page, "live")
    done = EventDraft("tool_call", {"tool": "compile", "arguments": {"step": "ended"}}, id="c")
    record(run, done)
    page.wait_for_selector(f"#e{seq} >> text=ended", timeout=TIMEOUT_MS)
    assert page.locator("text=begun").count() == 0
    assert seqs(page) == list(range(1, seq + 1))


def test_live_run_on_an_open_page_shows_new_gates_and_rounds(open_page, served_world):
    run = served_world.start(TASK, "tuner")
    page = open_page(f"/runs/{run.pk}/?tab=results")
    state(page, "live")
    served_world.round(run, 1, "passed", 1.6)
    page.wait_for_selector("#rounds >> text=1.60×", timeout=TIMEOUT_MS)
    assert page.locator('.gates li[data-verdict="passed"]').count() == 4
    page.wait_for_selector("#chart-rounds .main-svg", timeout=TIMEOUT_MS)
    served_world.round(run, 2, "failed", 1.6)
    page.wait_for_selector("#rounds >> text=WRONG_VALUES", timeout=TIMEOUT_MS)
    assert page.locator("#chart-rounds .main-svg").count() > 0, "the chart was kept"
    assert page.console_errors == []


def test_page_without_a_socket_polls_rows_and_summary(open_page, served_world, record):
    run = served_world.start(TASK, "tuner")
    page = open_page(f"/runs/{run.pk}/")
    page.route_web_socket("**/ws/**", lambda socket: socket.close())
    page.reload()
    page.wait_for_selector('[data-connection][data-state="polling"]', timeout=3 * TIMEOUT_MS)
    last = record(run, log("and on"))
    page.wait_for_selector(f"#e{last}", timeout=TIMEOUT_MS)
    served_world.round(run, 1, "passed", 1.6)
    page.wait_for_selector("#now >> text=1.60×", timeout=TIMEOUT_MS)


def test_frame_that_is_lost_is_requested(open_page, served_world, record):
    run = served_world.start(TASK, "tuner")
    page = open_page(f"/runs/{run.pk}/")

    def lose_some(socket):
        server, number = socket.connect_to_server(), itertools.count()
        server.on_message(lambda text: next(number) % 3 == 2 or socket.send(text))

    page.route_web_socket("**/ws/**", lose_some)
    requested = []
    page.on("request", lambda request: requested.append(request.url))
    page.reload()
    state(page, "live")
    for number in range(400):
        last = record(run, log(f"line {number}"))
        page.wait_for_timeout(60)  # waits: the pace of the rows, whatever that of the page
        if number >= 40 and any("?after=" in url for url in requested):
            break
    page.wait_for_selector(f"#e{last}", timeout=TIMEOUT_MS)
    assert seqs(page) == list(range(1, last + 1))
    assert 0 < sum("?after=" in url for url in requested) < 30


def test_page_that_follows_requests_nothing(open_page, served_world, record, in_thread):
    run = served_world.start(TASK, "tuner")
    page = open_page(f"/runs/{run.pk}/")
    state(page, "live")
    requested = []
    page.on("request", lambda request: requested.append(request.url))
    served_world.round(run, 1, "passed", 1.6)
    page.wait_for_selector("#now >> text=1.60×", timeout=TIMEOUT_MS)
    in_thread(services).finish_run(run.pk, LEASE, "failed", "Nothing was handed in.", "candidate")
    state(page, "ended")
    page.wait_for_selector('#now [data-verdict="failed"]', timeout=TIMEOUT_MS)
    assert [url for url in requested if "/runs/" in url] == []


def test_owner_can_cancel_until_the_run_has_ended(open_page, served_world, in_thread):
    run = served_world.start(TASK, "tuner")
    password = PBKDF2PasswordHasher().encode("builder", "salt")  # the server takes no quick one
    in_thread(get_user_model()(username="bob", password=password, is_staff=True)).save()
    page = open_page(f"/login/?next=/runs/{run.pk}/")
    page.fill("[name=username]", "bob")
    page.fill("[name=password]", "builder")
    page.keyboard.press("Enter")
    state(page, "live")
    served_world.round(run, 1, "passed", 1.6)
    page.wait_for_selector("#now >> text=1.60×", timeout=TIMEOUT_MS)
    page.click("#actions summary >> text=Cancel")
    page.wait_for_selector("#actions button >> text=Cancel the run", timeout=TIMEOUT_MS)
    in_thread(services).finish_run(run.pk, LEASE, "failed", "Nothing was handed in.", "candidate")
    state(page, "ended")
    page.wait_for_selector("#actions button", state="detached", timeout=TIMEOUT_MS)


def test_finished_run_without_javascript_is_complete(open_page, served_world):
    run = served_world.passed(TASK, "tuner", 2.1, rounds=3)
    page = open_page(f"/runs/{run.pk}/?tab=trace", java_script_enabled=False)
    assert page.locator("[data-toggle-theme]").is_hidden()
    shown = [int(row.get_attribute("data-seq")) for row in page.query_selector_all(".event")]
    assert shown == rows_of(run)
    assert len(shown) > run.last_seq / 2
    page.click(".tabs >> text=Results")
    assert page.locator("#cases >> text=12/12 correct").is_visible()
    page.click(".tabs >> text=Code")
    assert page.locator("#code >> text=round 3: lanes").is_visible()


def test_long_run_keeps_few_rows_and_reaches_each(open_page, served_world):
    run = served_world.long(TASK, "scripted", 6000)
    page = open_page(f"/runs/{run.pk}/?at=3000#e3000")
    page.wait_for_selector("#e3000.here", state="attached")
    below, reached = set(range(3000, run.last_seq + 1)), set(seqs(page))

    def scroll() -> bool:
        page.mouse.wheel(0, 6000)
        reached.update(now := seqs(page))
        assert len(now) < 3000
        return reached >= below

    until(scroll, lambda: sorted(below - reached)[:10])
    page.keyboard.press("g")
    page.wait_for_selector("#e1.here", timeout=TIMEOUT_MS)
    page.keyboard.press("G")
    page.wait_for_selector(f"#e{run.last_seq}.here", timeout=TIMEOUT_MS)
    now = seqs(page)
    assert now == sorted(set(now))
    assert reached >= below
    assert page.console_errors == []


def test_replay_of_a_finished_run_follows_its_clock(open_page, served_world):
    run = served_world.passed(TASK, "tuner", 2.1, rounds=3)
    run.events.update(t_ms=F("seq") * PACE)
    public = rows_of(run)
    page = open_page(f"/runs/{run.pk}/?tab=trace")
    assert page.locator("[data-replay]").is_hidden()
    page.keyboard.press("p")
    page.wait_for_selector('[data-connection][data-state="replay"]')
    page.keyboard.press("p")
    for at in (0, 7.5 * PACE, 20 * PACE, 3 * PACE):
        page.locator("[data-at]").fill(str(int(at)))
        assert seqs(page) == public, "rows stay where they are"
        shown = ".event:not([hidden])"
        now = page.eval_on_selector_all(shown, "rows => rows.map(row => Number(row.dataset.seq))")
        assert now == [seq for seq in public if seq * PACE <= at]
        stops = page.locator(".outline li:not([hidden]) a")
        assert all(int(stop.get_attribute("data-t")) <= at for stop in stops.all())
    page.wait_for_selector("[data-clock]:visible >> text=0:30.0", timeout=TIMEOUT_MS)
    page.locator("[data-speed]").select_option("60")
    page.locator("[data-at]").focus()
    page.keyboard.press("p")
    page.wait_for_selector(f"#e{public[-1]}.here", timeout=TIMEOUT_MS)
    page.wait_for_selector("text=Play >> visible=true")
    page.locator("[data-whole]").click()
    assert page.locator(".event[hidden]").count() == 0
    assert page.locator("[data-replay]").is_hidden()
    assert page.console_errors == []


def test_replay_of_a_run_that_just_ended_is_offered(open_page, served_world, record, in_thread):
    run = served_world.start(TASK, "tuner")
    record(run, log("one"), log("two"))
    page = open_page(f"/runs/{run.pk}/")
    state(page, "live")
    opener = page.locator("[data-replay-open]")
    assert opener.is_hidden(), "it is not over"
    in_thread(services).finish_run(run.pk, LEASE, "failed", "Nothing was handed in.", "candidate")
    state(page, "ended")
    page.wait_for_selector("#notices >> text=Nothing was handed in.", timeout=TIMEOUT_MS)

    page.route("**/moments/", lambda route: route.fulfill(status=503), times=1)
    opener.click()
    page.wait_for_selector("text=Replay did not load: try again", timeout=TIMEOUT_MS)
    opener.click()
    state(page, "replay")
    page.locator("[data-whole]").click()
    state(page, "ended")
    assert opener.inner_text() == "Replay"
    assert len(page.console_errors) == 1, "of the answer that did not come"


def test_replay_of_a_long_run_loads_chunks(open_page, served_world):
    run = served_world.long(TASK, "scripted", 2000)
    run.events.update(t_ms=F("seq") * PACE)
    Run.objects.filter(pk=run.pk).update(status="failed", ended_at=timezone.now())
    page = open_page(f"/runs/{run.pk}/?tab=trace")
    page.locator("[data-replay-open]").click()
    page.locator("[data-play]").click()
    for seq in (10, 400, 1700, 900):
        page.locator("[data-at]").fill(str(seq * PACE))
        page.wait_for_selector(f"#e{seq}.here", timeout=TIMEOUT_MS)
        later = f".chunk[data-chunk='{(seq - 1) // 100 + 1}']"
        assert page.locator(later).is_hidden()
    assert page.console_errors == []

    page.route(re.compile(r"chunk=10$"), lambda route: route.fulfill(status=503), times=1)
    page.locator("[data-at]").fill(str(1100 * PACE))
    page.wait_for_selector("#e1100.here", timeout=TIMEOUT_MS)
    assert len(page.console_errors) == 1, "of the chunk that did not come at first"


def test_keyboard_shortcuts_move_search_and_link(open_page, served_world):
    run = served_world.passed(TASK, "tuner", 2.1, rounds=3)
    page = open_page(f"/runs/{run.pk}/?tab=trace")
    stops = page.eval_on_selector_all(
        ".outline a[data-stop]", "links => links.map(link => link.dataset.seq)"
    )
    page.keyboard.press("g")
    page.wait_for_selector("#e1.here")
    page.keyboard.press("j")
    page.wait_for_selector(f"#e{stops[0]}.here")
    colour = "getComputedStyle(document.querySelector('.event.here')).backgroundColor"
    marked = page.evaluate(colour)
    page.keyboard.press("]")
    page.wait_for_selector(".event.here[data-kind='gate_result']")
    assert page.evaluate(colour) == marked, "wherever one is, it shows"
    page.keyboard.press("y")
    page.wait_for_function("() => location.hash.startsWith('#e')")
    address = page.url
    page.keyboard.press("?")
    assert page.locator("dialog.help").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.goto(address)
    seq = re.search(r"#e(\d+)", address)[1]
    page.wait_for_selector(f"#e{seq}.here", timeout=TIMEOUT_MS)
    page.goto(f"{page.url.partition('?')[0]}?q=e")
    page.keyboard.press("?")
    assert page.locator("dialog.help").is_visible()


def test_search_results_are_marked_and_expanded(open_page, served_world):
    run = served_world.passed(TASK, "tuner", 2.1, rounds=3)
    page = open_page(f"/runs/{run.pk}/?q=Dependency")
    marks = page.locator(".event .body mark")
    marks.first.wait_for()
    assert {text.lower() for text in marks.all_text_contents()} == {"dependency"}
    folded = page.locator("details:not([open]) mark")
    assert folded.count() == 0 and page.locator("details[open] mark").count() > 0
    whole = page.locator(".event .body").evaluate_all("them => them.map(it => it.textContent)")
    assert sum(text.lower().count("dependency") for text in whole) == marks.count()
    assert page.console_errors == []


def test_chosen_theme_is_applied_at_first_paint(open_page, served_world):
    page = open_page("/methodology/", color_scheme="light")
    dark = "getComputedStyle(document.documentElement).backgroundColor"
    before = page.evaluate(dark)
    page.click("[data-toggle-theme]")
    assert page.evaluate(dark) != before
    page.reload(wait_until="commit")
    page.wait_for_selector("body", state="attached")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.emulate_media(media="print")
    assert page.evaluate(dark) == before, "ink on every sheet"


def test_home_page_shows_a_new_run(open_page, served_world):
    page = open_page("/")
    assert page.locator("#active >> text=Nothing is running").is_visible()
    served_world.start("softmax/cpp-to-cpp", "tuner")
    # A page that has not joined yet is sent this by the timer, after a minute.
    page.wait_for_selector("#active >> text=softmax/cpp-to-cpp", timeout=3 * TIMEOUT_MS)


def test_pages_have_no_console_errors_and_no_horizontal_scroll(open_page, served_world, in_thread):
    run = served_world.passed(TASK, "tuner", 2.1, rounds=3)
    live = served_world.live("swiglu/cpp-to-cpp", "hill-climber", 1)
    paths = ["/", "/leaderboard/", "/tasks/", f"/tasks/{TASK}/", "/runs/", f"/runs/{run.pk}/"]
    paths += [f"/runs/{live.pk}/", f"/runs/{run.pk}/rounds/2/", "/agents/tuner/", "/hardware/"]
    paths += ["/login/"]
    kernel = in_thread(production).production_run("tuner", "llama_rms_norm")
    paths += ["/production/", "/production/llama/", "/tasks/llama_rms_norm/production/"]
    paths += ["/leaderboard/?suite=production", f"/runs/{kernel.pk}/"]
    for viewport in (DESK, PHONE):
        page = open_page("/methodology/", viewport)
        for path in paths:
            page.goto(page.url.split("/", 3)[0] + "//" + page.url.split("/")[2] + path)
            page.wait_for_load_state("load")
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{path} is {wide} px too wide"
            cut = page.evaluate(CUT_OFF)
            assert cut == [], f"{path} cuts off {cut}"
        assert page.console_errors == []


def test_embedded_board_fits_a_narrow_frame(open_page, served_world, in_thread):
    served_world.passed(TASK, "tuner", 2.1, rounds=1)
    in_thread(Agent.objects.filter(slug="tuner")).update(title="A team with-a-long-name " * 3)
    for width in (320, 500):
        page = open_page("/leaderboard/embed/?task_set=all", {"width": width, "height": 400})
        assert page.is_visible("text=A team with")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("width", [320, 360, 390])
def test_navigation_on_a_phone_is_fully_visible(open_page, served_world, width):
    page = open_page("/", {"width": width, "height": 700})
    hidden = page.locator(".nav").evaluate("it => it.scrollWidth - it.clientWidth")
    assert hidden == 0


def test_methodology_on_a_phone_is_short_and_opens_the_part_that_a_link_names(
    open_page, served_world
):
    page = open_page("/methodology/", PHONE)
    assert page.evaluate("document.documentElement.scrollHeight") < 6000
    assert not page.is_visible("text=The unit of timing is a")
    page.click(".outline a:has-text('Timing')")
    page.wait_for_selector("text=The unit of timing is a", state="visible", timeout=TIMEOUT_MS)
    linked = open_page("/methodology/#noise", PHONE)
    linked.wait_for_selector("#noise", state="visible", timeout=TIMEOUT_MS)


def test_long_word_causes_no_horizontal_scroll(open_page, served_world, record, in_thread):
    run, word = served_world.start(TASK, "tuner"), "x" * 300
    Run.objects.filter(pk=run.pk).update(label=word[:100])
    record(run, log(word), EventDraft("note", {"text": word, "detail": {word: word}}))
    record(run, EventDraft("tool_call", {"tool": word, "arguments": {word: word, "y": word[:100]}}))
    in_thread(services).finish_run(run.pk, LEASE, "broken", word, "arena")
    for viewport in (DESK, PHONE):
        page = open_page(f"/runs/{run.pk}/?tab=trace", viewport)
        if viewport is PHONE:
            page.click("[data-fold][aria-pressed=true]")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        dt = page.locator(".event dt").bounding_box()
        assert dt["width"] <= viewport["width"] * 0.4


def test_list_of_runs_with_long_reasons_and_badges_fits(open_page, served_world, in_thread):
    slow, run = served_world.passed(TASK, "cautious", 0.8), served_world.start(TASK, "tuner")
    in_thread(services).finish_run(run.pk, LEASE, "broken", "WORKER_" * 20, "arena")
    for viewport in (DESK, PHONE):
        page = open_page("/runs/", viewport)
        assert "than baseline" in page.locator("tr", has_text=slow.pk).inner_text()
        reason = page.locator("tr", has_text=run.pk).locator(".pill + .sub")
        assert reason.get_attribute("title") == "WORKER_" * 20
        table = page.locator("#runs-now .scroll")
        assert table.evaluate("it => it.scrollWidth - it.clientWidth") == 0


def test_titles_and_formulas_of_tasks_fit_on_a_phone(open_page, served_world):
    word, title = "x" * 60, "A title of an operator with a good many words in it"
    formula = "```\nout[r, c] = " + " + ".join(f"x[r, {n}]" for n in range(20)) + "\n```"
    Operator.objects.filter(slug="softmax").update(slug=word, title=title, prompt=formula)
    page = open_page(f"/tasks/?q={word}", PHONE)
    line = page.locator("tr td[data-label=Operator]", has_text=title).first
    assert line.bounding_box()["width"] > PHONE["width"] * 0.8
    name = page.locator("tr th[scope=row]").first
    assert name.evaluate("it => it.scrollWidth - it.clientWidth") <= 0
    page = open_page(f"/tasks/{word}/cpp-to-cpp/", PHONE)
    prompt = page.locator(".prose pre")
    assert prompt.evaluate("it => it.scrollWidth - it.clientWidth") == 0
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_bidirectional_text_affects_no_other_text(open_page, served_world, record):
    run = served_world.start(TASK, "tuner")
    seq = record(run, EventDraft("tool_call", {"tool": "t", "arguments": {"\u202ename": "value"}}))
    page = open_page(f"/runs/{run.pk}/")
    name, value = (
        page.locator(f"#e{seq} .body .line span {part}").bounding_box() for part in (".dim", "code")
    )
    assert name["x"] < value["x"]


def test_leaders_on_a_phone_fit_with_their_intervals(open_page, served_world):
    served_world.passed(TASK, "tuner", 2.1, rounds=2)
    page = open_page("/", PHONE)
    hidden = page.locator("#leaders-now .scroll").evaluate("it => it.scrollWidth - it.clientWidth")
    assert hidden == 0


def test_filter_chosen_by_keyboard_applies_by_enter_and_keeps_the_focus(open_page, served_world):
    page = open_page("/leaderboard/")
    assert not page.locator(".filters .apply").is_visible()
    page.focus("select[name=track]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert "track=" not in page.url and page.locator(".filters .apply").is_visible()
    chosen = page.locator("select[name=track]").input_value()
    with page.expect_navigation():
        page.keyboard.press("Enter")
    page.wait_for_selector("select[name=track]:focus", timeout=TIMEOUT_MS)
    assert f"track={chosen}" in page.url


def test_board_chart_is_drawn_under_the_content_security_policy(open_page, served_world):
    served_world.passed(TASK, "tuner", 2.1, rounds=2)
    page = open_page("/leaderboard/")
    page.locator("#part-generalization").scroll_into_view_if_needed()
    page.locator("#chart-gap").scroll_into_view_if_needed()
    page.wait_for_selector("#chart-gap .main-svg", timeout=TIMEOUT_MS)
    assert page.console_errors == []


def test_funnel_charts_are_drawn_under_the_security_policy(open_page, served_world, in_thread):
    kernel = in_thread(production).production_run("tuner", "llama_rms_norm")
    for path in ("/production/llama/", f"/runs/{kernel.pk}/"):
        page = open_page(path)
        page.locator("#chart-funnel").scroll_into_view_if_needed()
        page.wait_for_selector("#chart-funnel .main-svg", timeout=TIMEOUT_MS)
        assert page.console_errors == []
