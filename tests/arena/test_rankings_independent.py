"""Tests of the board against a ranking computed independently, on published and random results."""

from __future__ import annotations

import json
import lzma
import math
import random
import tomllib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.utils import timezone
from scipy import stats

from arena.catalog.models import Agent, Hardware, Operator, Task, TaskVersion
from arena.runs import services
from arena.runs.models import Run
from arena.runs.standings import keep_standing
from tests.arena.factories import finished, judged_run
from tests.arena.independent_ranking import VERDICT_TO_VERDICT, Record, Speedup, Z, ranking

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "benchmarks/published/h200.jsonl.xz"
BY = ("seen", "unseen", "gap")


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    """Return the published runs without events and rounds, which no board reads."""
    with lzma.open(PUBLISHED) as file:
        found = [json.loads(line) for line in file]
    for line in found:
        line |= {"events": [], "blobs": {}, "experiment": None}
        line["run"]["last_seq"] = 0
        for submission in line["submissions"]:
            finals = [each for each in submission["evaluations"] if each["scope"] == "final"]
            submission["evaluations"] = finals
    return found


def category_of(operator: str) -> str:
    path = ROOT / "tasks" / operator / "task.toml"
    return str(tomllib.loads(path.read_text("utf-8"))["category"])


def geomean(cases: list[dict[str, Any]]) -> Speedup | None:
    """Return the speedup over cases from those of single cases: their variances add."""
    if not cases:
        return None
    count, value = len(cases), float(stats.gmean([case["speedup"] for case in cases]))
    below = math.sqrt(sum(math.log(case["speedup"] / case["low"]) ** 2 for case in cases)) / count
    above = math.sqrt(sum(math.log(case["high"] / case["speedup"]) ** 2 for case in cases)) / count
    return Speedup(value, value * math.exp(-below), value * math.exp(above))


def held_out(cases: list[dict[str, Any]], judge: str) -> Speedup | None:
    """Return the speedup on held-out cases.

    The interval of judges up to version 3 includes the error of the draw: Student's t over the
    cases that were drawn, which are a part of all.
    """
    measured = geomean(cases)
    drawn = np.log([case["speedup"] for case in cases if case["split"] == "sampled"])
    if measured is None or int(judge) > 3 or len(drawn) < 2:
        return measured
    error = stats.t.ppf(0.975, len(drawn) - 1) * stats.sem(drawn) * len(drawn) / len(cases)
    sides = measured.value / measured.low, measured.high / measured.value
    below, above = (math.exp(math.hypot(math.log(side), error)) for side in sides)
    return Speedup(measured.value, measured.value / below, measured.value * above)


def records_of(lines: list[dict[str, Any]]) -> list[Record]:
    """Return the records of published lines, computed from their gates and single cases alone."""
    found = []
    for line in lines:
        run = line["run"]
        finals = [each for made in line["submissions"] for each in made["evaluations"]]
        assert len(finals) <= 1
        passed = bool(finals) and all(gate["verdict"] == "passed" for gate in finals[0]["gates"])
        cases = finals[0]["measurements"] if passed else []
        shares = [case["roofline_share"] for case in cases if case["split"] == "seen"]
        found.append(
            Record(
                agent=line["agent"]["slug"],
                task=line["task"]["slug"],
                device=line["hardware"]["slug"],
                repeat=run["repeat"],
                at=datetime.fromisoformat(run["created_at"]),
                passed=passed,
                seen=geomean([case for case in cases if case["split"] == "seen"]),
                unseen=held_out(
                    [case for case in cases if case["split"] != "seen"],
                    finals[0]["judge_version"] if finals else "",
                ),
                open_book=line["agent"]["slug"] == "expert",
                category=category_of(line["task"]["slug"].partition("/")[0]),
                roofline=float(stats.gmean(shares)) if shares and all(shares) else None,
            )
        )
    return found


def load(lines: list[dict[str, Any]], path: Path) -> None:
    """Import these lines, without single cases, into an arena that has their tasks."""
    for line in lines:
        name, _, track = line["task"]["slug"].partition("/")
        operator, _ = Operator.objects.get_or_create(
            slug=name,
            defaults={"title": name, "category": category_of(name), "level": 1, "prompt": ""},
        )
        task, _ = Task.objects.get_or_create(
            operator=operator, track=track, defaults={"status": "published"}
        )
        TaskVersion.objects.get_or_create(task=task, content_hash=line["task"]["hash"])
    Agent.objects.create(slug="expert", title="Expert", adapter="expert", open_book=True)
    slim = [json.loads(json.dumps(line)) for line in lines]
    for line in slim:
        for submission in line["submissions"]:
            for evaluation in submission["evaluations"]:
                evaluation |= {"gates": [], "measurements": [], "report": {}, "private": {}}
    path.write_text("".join(json.dumps(line) + "\n" for line in slim))
    found = services.import_results(path)
    assert (len(found.loaded), found.refused) == (len(lines), [])


def assert_board_equals(client: Any, records: list[Record], by: str, **query: str) -> int:
    """Compare every row that the API shows with the independent ranking; return their number."""
    answer = client.get("/api/v1/leaderboard", {"generalization": by, **query})
    rows, expected = answer.json()["rows"], ranking(records, by)
    assert [row["agent"] for row in rows] == [row["agent"] for row in expected]
    for row, wanted in zip(rows, expected, strict=True):
        for name in ("rank", "band", "passed", "total", "tasks", "board", "common"):
            assert row[name] == wanted[name], (row["agent"], name)
        assert row["solved"] == pytest.approx(wanted["solved"], abs=1e-5)
        assert row["share"] == pytest.approx(wanted["share"], abs=1e-5)
        for prefix, name in (("", "seen"), ("unseen_", "unseen"), ("own_unseen_", "own_unseen")):
            ends = [row[f"{prefix}{end}"] for end in ("speedup", "low", "high")]
            if wanted[name] is None:
                assert ends == [None] * 3
            else:
                want = (wanted[name].value, wanted[name].low, wanted[name].high)
                assert ends == pytest.approx(want, rel=2e-4), (row["agent"], name)
        assert row["gap"] == (wanted["gap"] and pytest.approx(wanted["gap"]))
    return len(rows)


def test_board_of_the_published_results_equals_one_computed_from_single_cases(
    lines, client, tmp_path
):
    load(lines, tmp_path / "published.jsonl")
    records = records_of(lines)
    assert len(records) == 120
    for by in BY:
        assert assert_board_equals(client, records, by) == 3
    for category in sorted({record.category for record in records}):
        chosen = [record for record in records if record.category == category]
        assert assert_board_equals(client, chosen, "unseen", category=category)
    for track in sorted({record.task.partition("/")[2] for record in records}):
        chosen = [record for record in records if record.task.endswith(f"/{track}")]
        assert assert_board_equals(client, chosen, "unseen", track=track)
    _assert_interval_is_that_of_random_errors(client, records)


def _assert_interval_is_that_of_random_errors(client: Any, records: list[Record]) -> None:
    """Draw the errors of all runs anew, many times: the quantiles are the ends of the interval."""
    rows = client.get("/api/v1/leaderboard").json()["rows"]
    row = next(row for row in rows if row["agent"] == "expert")
    speedups = [r.unseen for r in records if r.agent == "expert" and r.unseen]
    assert len(speedups) == row["tasks"] == 84
    deviations = [
        math.hypot((math.log(s.high) - math.log(s.low)) / 2 / Z, VERDICT_TO_VERDICT)
        for s in speedups
    ]
    dice = np.random.default_rng(1)
    drawn = stats.norm.rvs(0, deviations, (20_000, len(deviations)), random_state=dice)
    means = np.log([s.value for s in speedups]).mean() + drawn.mean(axis=1)
    width = math.log(row["unseen_high"] / row["unseen_low"])
    for end, quantile in (("unseen_low", 0.025), ("unseen_high", 0.975)):
        assert math.log(row[end]) == pytest.approx(np.quantile(means, quantile), abs=0.05 * width)


def test_summary_of_each_published_run_equals_that_of_its_cases(lines):
    """The columns of a run that boards read are those of its final verdict's single cases."""
    for line, record in zip(lines, records_of(lines), strict=True):
        run = line["run"]
        assert record.passed == (run["status"] == "passed")
        for prefix, speedup in (("", record.seen), ("unseen_", record.unseen)):
            stored = [run[f"{prefix}{name}"] for name in ("speedup", "low", "high")]
            wanted = [speedup.value, speedup.low, speedup.high] if speedup else [None] * 3
            assert stored == (pytest.approx(wanted, rel=2e-4) if speedup else wanted), run["id"]


@pytest.mark.parametrize("seed", range(3))
def test_board_of_random_results_equals_the_independent_one(client, hardware, seed):
    """Missing tasks, failures, untimed runs, repeats, superseded runs and close speedups."""
    dice = random.Random(seed)
    other = Hardware.objects.create(slug="other", name="Other", kind="cpu", queue="hw.other")
    records = []
    for number in range(90):
        agent, device = f"agent-{dice.randrange(6)}", dice.choice([hardware, hardware, other])
        task = f"operator_{dice.choice([0, 1, 2, 3, 3, 4, 5])}"
        outcome = dice.choice(["passed", "passed", "passed", "failed", "untimed"])
        level = 1 + int(agent[-1]) // 2 / 4  # pairs of agents are equally fast
        seen, unseen = (
            Speedup(value, value / width, value * width**1.5)
            for value, width in (
                (level * dice.lognormvariate(0, spread), dice.uniform(1.0, 1.1))
                for spread in (0.01, 0.05)
            )
        )
        at = timezone.now() + timedelta(seconds=number)
        record = Record(
            agent=agent,
            task=task,
            device=device.slug,
            repeat=dice.choice([0, 0, 0, 1]),
            at=at,
            passed=outcome != "failed",
            seen=seen if outcome == "passed" else None,
            unseen=unseen if outcome == "passed" and dice.random() < 0.9 else None,
            open_book=agent == "agent-5",
        )
        records.append(record)
        _store(record, device)
    Agent.objects.filter(slug="agent-5").update(open_book=True)
    for device in (hardware, other):
        chosen = [record for record in records if record.device == device.slug]
        for by in BY:
            assert assert_board_equals(client, chosen, by, hardware=device.slug) >= 5


def _store(record: Record, device: Hardware) -> None:
    values: dict[str, Any] = {}
    for prefix, speedup in (("", record.seen), ("unseen_", record.unseen)):
        for name in ("value", "low", "high"):
            column = prefix + ("speedup" if name == "value" else name)
            values[column] = speedup and getattr(speedup, name)
    values |= {"status": "passed" if record.passed else "failed", "created_at": record.at}
    judged_run(record.agent, record.task, hardware=device, repeat=record.repeat, **values)


def test_hand_made_board_has_the_ranks_written_beside_it(client, hardware):
    """Ties, bands, missing tasks and failures in one board, by the rules of the methodology."""
    expected = [
        # agent, common tasks passed of 2, speedup on both, other tasks, rank, band
        ("fast", 2, 3.00, 1, 1, 1),
        ("tied", 2, 2.99, 0, 2, 1),  # 0.3% slower than the leader: within its interval
        ("near", 2, 2.60, 0, 3, 3),
        ("wild", 1, 50.0, 0, 4, 4),  # faster than all, but failed a common task
        ("null", 0, None, 2, 5, 5),
        ("none", 0, None, 0, 6, 5),  # equals the one before; the order is by name, reversed here
    ]  # fmt: skip
    names = {"null": "m", "none": "n"}
    for slug, passed, speedup, others, *_ in expected:
        for number, task in enumerate(("relu", "gelu")):
            timed = {"speedup": speedup, "width": 1.001} if number < passed else {}
            judged_run(names.get(slug, slug), task, hardware=hardware, **timed)
        for number in range(others):
            judged_run(names.get(slug, slug), f"extra_{number}", 9.0, hardware=hardware)
    answer = client.get("/api/v1/leaderboard").json()
    assert (answer["size"], answer["common"]) == (4, 2)
    assert [(row["agent"], row["rank"], row["band"]) for row in answer["rows"]] == [
        (names.get(slug, slug), rank, band) for slug, _, _, _, rank, band in expected
    ]
    by_agent = {row["agent"]: row for row in answer["rows"]}
    assert by_agent["fast"]["unseen_speedup"] == pytest.approx(3.0)  # its 9x is of no common task
    assert by_agent["fast"]["own_unseen_speedup"] == pytest.approx((3 * 3 * 9) ** (1 / 3))
    assert (by_agent["m"]["tasks"], by_agent["m"]["solved"], by_agent["m"]["share"]) == (4, 2, 0)


def judge_at(run: Run, content_hash: str) -> Run:
    """Make the run one of another version of its task."""
    version, _ = TaskVersion.objects.get_or_create(
        task=run.task_version.task, content_hash=content_hash
    )
    run.task_version = version
    run.save(update_fields=["task_version"])
    keep_standing(run)
    return run


def test_board_with_results_of_an_older_task_version_counts_them(client, hardware):
    judged_run("a", "relu", 2.0, hardware=hardware)
    judge_at(judged_run("b", "relu", 3.0, hardware=hardware), "b" * 64)
    judge_at(judged_run("c", "gelu", 3.0, hardware=hardware), "c" * 64)  # its only version
    page = client.get("/leaderboard/").content.decode()
    assert "1 result is of an older version of their task than others here." in page
    again = judged_run("a", "relu", 2.5, hardware=hardware, created_at=timezone.now())
    judge_at(again, "b" * 64)
    page = client.get("/leaderboard/").content.decode()
    assert "of an older version of their task" not in page


def test_newest_run_of_a_place_counts_across_task_versions(client, hardware):
    judged_run("a", "relu", 9.0, hardware=hardware)
    judge_at(judged_run("a", "relu", 2.0, hardware=hardware), "b" * 64)
    [row] = client.get("/api/v1/leaderboard").json()["rows"]
    assert (row["total"], row["speedup"]) == (1, pytest.approx(2.0))


def test_judge_versions_are_those_of_the_runs_under_the_filters(client, start, hardware):
    """Two versions mix on the board of all runs, and one alone is on the board of an experiment."""
    from arena.runs.models import Experiment

    experiment = Experiment.objects.create(slug="pair", title="Pair", plan={"repeats": 1})
    finished(start())
    finished(start(repeat=1, experiment=experiment), judge_version="2")
    mixed = "This board mixes results of judge versions 1, 2"
    assert mixed in client.get("/leaderboard/").content.decode()
    page = client.get("/leaderboard/?experiment=pair")
    assert page.context["board"].judge_versions == ["2"]
    assert "This board mixes" not in page.content.decode()
