"""Tests of submitted files as pages show and compare them."""

from __future__ import annotations

import re
import time

import pytest

from arena.runs import services
from arena.runs.code.highlighting import _coloured
from arena.runs.code.sources import changes, highlighted, sources
from tests.arena.factories import LEASE, judge, report

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
