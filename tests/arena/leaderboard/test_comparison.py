"""Tests of the comparison of runs and its page."""

from __future__ import annotations

import pytest

from arena.leaderboard.comparison import MAX_RUNS, compare
from arena.runs import services
from arena.runs.models import Run
from tests.arena.factories import HIDDEN_CASE, LEASE, finished, gate, measurement
from tests.arena.production import production_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def judged(start):
    """Make a passed run from the speedups of its public cases."""

    def make(**speedups: float) -> Run:
        cases = [measurement(case, speedup=speedup) for case, speedup in speedups.items()]
        gates = [gate("performance", measurements=cases), gate("generalization")]
        run = finished(start(), gates=gates)
        return Run.objects.with_names().select_related("final").get(pk=run.pk)

    return make


def test_comparison_uses_the_shared_cases(judged):
    found = compare([judged(small=2.0, large=1.0), judged(small=3.0, large=1.0, other=9.0)])
    assert [name for name, _ in found.cases] == ["small", "large"]
    (first, second), _ = (cells for _, cells in found.cases)
    assert first.over is None and second.over.speedup == pytest.approx(1.5)
    assert [(cell.wins) for cell in (first, second)] == [False, True]
    assert [column.wins for column in found.columns] == [0, 1]
    assert found.columns[1].over.speedup == pytest.approx(1.5**0.5)
    assert (
        "1.22 times as fast" in found.summary and "no significant difference on 1" in found.summary
    )


def test_comparison_of_equal_runs_finds_no_significant_difference(judged):
    found = compare([judged(small=2.0), judged(small=2.01)])
    assert "do not differ significantly" in found.summary
    assert [column.wins for column in found.columns] == [0, 0]


def test_runs_by_different_judges_are_not_compared(judged):
    runs = [judged(small=2.0), judged(small=3.0)]
    runs[1].judge_version = "0"
    assert "different versions of the judge" in compare(runs).not_comparable


def test_comparison_with_an_untimed_run_names_it(judged, start):
    silent = finished(start(), verdict="failed", gates=[gate("correctness", "failed")])
    silent = Run.objects.with_names().select_related("final").get(pk=silent.pk)
    found = compare([judged(small=2.0), silent])
    assert found.not_comparable == f"the final verdict of {silent.pk} has no timings."
    assert found.cases == [] and found.summary == ""


@pytest.mark.django_db
def test_runs_of_a_module_are_not_compared_by_cases():
    pks = [production_run(by).pk for by in ("tuner", "expert")]
    runs = Run.objects.with_names().select_related("final").filter(pk__in=pks)
    found = compare(list(runs))
    assert found.not_comparable.startswith("a module is timed in its model, not on cases.")


def test_compare_page_shows_the_comparison_and_other_runs(client, judged):
    runs = [judged(small=speedup) for speedup in (2.0, 3.0, 4.0)]
    a, b, c = (run.pk for run in runs)
    page = client.get(f"/compare/?run={a}").content.decode()
    assert f"?run={a}&amp;run={b}" in page and "Select another run" in page
    page = client.get(f"/compare/?run={a}&run={b}&run={a}").content.decode()
    assert f"{b} is 1.50 times as fast as {a} over 1 case:" in page
    assert "Add another run" in page and "The files are identical." in page
    assert HIDDEN_CASE not in page
    three = client.get(f"/compare/?run={a}&run={b}&run={c}")
    assert three.status_code == 200 and b"2.00\xc3\x97" in three.content
    assert "list of runs" in client.get("/compare/").content.decode()


def test_compare_page_with_too_many_runs_says_how_many_are_left_out(client, judged):
    runs = [judged(small=2.0).pk for _ in range(MAX_RUNS + 2)]
    page = client.get("/compare/?" + "&".join(f"run={run}" for run in runs)).content.decode()
    assert f"At most {MAX_RUNS} runs are compared: the last 2 selected are left out" in page
    assert f"/runs/{runs[MAX_RUNS - 1]}/" in page and f"/runs/{runs[MAX_RUNS]}/" not in page
    assert "left out" not in client.get(f"/compare/?run={runs[0]}&run={runs[1]}").content.decode()


def test_compare_page_with_an_invisible_run_is_not_found(client, judged, start, alice):
    private = start(owner=alice, visibility="owner")
    services.claim_run(private.pk, LEASE)
    address = f"/compare/?run={judged(small=2.0).pk}&run={private.pk}"
    assert client.get(address).status_code == 404
    client.force_login(alice)
    page = client.get(address).content.decode()
    assert f"the final verdict of {private.pk} has no timings" in page
