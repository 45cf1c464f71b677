"""Tests of submitted files as pages show and compare them."""

from __future__ import annotations

import re
import time

import pytest

from arena.runs import services
from arena.runs.code.highlighting import _coloured
from arena.runs.code.sources import changes, highlighted, sources
from tests.arena.factories import LEASE, judge, report
from tests.web.conftest import TIMEOUT_MS

pytestmark = pytest.mark.django_db


def test_long_files_are_cut_and_not_compared():
    short, long = "int a;\n" * 100, "int a;\n" * 2_500
    results = sources({"a.cpp": short, "b.cpp": long, "c.cpp": short})
    assert [source.cut for source in results] == [False, True, True]
    results = changes({"a.cpp": short, "b.cpp": long}, {"a.cpp": "", "b.cpp": long + short})
    assert [(change.removed, change.cut) for change in results] == [(100, False), (0, True)]
    assert changes({"a.cpp": long}, {"a.cpp": long}) == []


def test_highlighting_the_same_content_twice_is_cached():
    first = highlighted("cached.cpp", "int cached;")
    hits = _coloured.cache_info().hits
    assert highlighted("cached.cpp", "int cached;") == first
    assert _coloured.cache_info().hits == hits + 1
    assert highlighted("cached.cpp", "int other;") != first


def slow_to_compare(first: str) -> str:
    """Half a megabyte, of which no two versions have more than single lines in common."""
    return "".join(f"{first}{n}\nc{n % 100}\n" for n in range(40_000))


def test_huge_files_keep_every_page_fast(client, start):
    runs = [start(), start()]
    for run, names in zip(runs, ("ab", "cd"), strict=True):
        services.claim_run(run.pk, LEASE)
        for name in names:
            submission = services.submit(run.pk, {"relu.cpp": slow_to_compare(name)})
            judge(services.request_evaluation(submission, "round"), report())
        judge(services.request_evaluation(submission, "final"), report())
    first, second = (f"/runs/{run.pk}" for run in runs)
    for address, links in (
        (f"{first}/?tab=code", ["rounds/2/files/relu.cpp"]),
        (f"{first}/summary/", ["rounds/2/files/relu.cpp"]),
        (f"{first}/rounds/2/", ["rounds/1/files/relu.cpp", "rounds/2/files/relu.cpp"]),
        (f"/compare/?run={runs[0].pk}&run={runs[1].pk}", [first, second]),
    ):
        began = time.process_time()  # waits: processor time; a diff of these takes minutes
        page = client.get(address).content.decode()
        assert time.process_time() - began < 30, address  # waits: see above
        assert len(page) < 1_000_000, address
        for link in links:
            assert re.search(rf'href="[^"]*{link}', page), (address, link)
    assert page.count("/files/relu.cpp") == 2 and "is too large for a diff" in page
    assert "is too large for a diff" in client.get(f"{first}/rounds/2/").content.decode()
    assert 'id="relu-cpp-L2000"' in client.get(f"{first}/?tab=code").content.decode()


def test_round_page_has_the_strip_of_rounds_its_change_in_columns_and_what_led_to_it(client, world):
    run = world.passed("rms_norm/cpp-to-cpp", "tuner", 2.1, rounds=3)
    begin = run.events.filter(kind="span_begin", body__span_kind="submission", body__round=2).get()
    before = run.events.filter(seq__lt=begin.seq).order_by("-seq")[:1]
    run.events.filter(pk__in=[event.pk for event in before]).update(
        kind="message", body={"role": "assistant", "text": "I widen the loads to 16 bytes."}
    )
    page = client.get(f"/runs/{run.pk}/rounds/2/").content.decode()
    assert re.findall(r"<title>(Round \d)", page)[-3:] == ["Round 1", "Round 2", "Round 3"]
    assert 'class="split hl"' in page and '<td class="gi">' in page
    assert "I widen the loads" in page
    assert "I widen the loads" not in client.get(f"/runs/{run.pk}/rounds/3/").content.decode()


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_scrubber_shows_another_round_and_its_link(open_page, served_world):
    run = served_world.passed("rms_norm/cpp-to-cpp", "tuner", 2.1, rounds=3)
    page = open_page(f"/runs/{run.pk}/rounds/1/")
    page.focus("[data-scrub]")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("h1:has-text('Round 2')", timeout=TIMEOUT_MS)
    page.wait_for_url("**/rounds/2/", timeout=TIMEOUT_MS)
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("h1:has-text('Round 3')", timeout=TIMEOUT_MS)
    plain = open_page(f"/runs/{run.pk}/rounds/1/", java_script_enabled=False)
    assert not plain.locator("[data-scrub]").is_visible()
    plain.click("a[rel=next]")
    assert plain.locator("h1:has-text('Round 2')").count() == 1
    assert page.console_errors == []
