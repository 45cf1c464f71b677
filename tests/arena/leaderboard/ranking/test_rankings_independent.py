"""Tests of the board against a ranking computed independently, on judged and random results."""

from __future__ import annotations

import json
import lzma
import math
import random
import tomllib
from collections.abc import Collection
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
from arena.runs.scoring.standings import keep_standing, touch
from evaluation.tasks.spec import folder_of
from tests.arena.factories import judged_run
from tests.arena.independent_ranking import VERDICT_TO_VERDICT, Record, Speedup, Z, ranking

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[4]
JUDGED = Path(__file__).with_name("runs.jsonl.xz")
BY = ("seen", "unseen")


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    """Return 120 runs of ten tracks that were judged on an H200, without events and sources."""
    with lzma.open(JUDGED) as file:
        return [json.loads(line) for line in file]


def category_of(operator: str) -> str:
    path = folder_of(ROOT / "tasks", operator) / "task.toml"
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
    """Return the records of lines, computed from their gates and single cases alone."""
    found = []
    for line in lines:
        run = line["run"]
        judged = [each for made in line["submissions"] for each in made["evaluations"]]
        finals = [each for each in judged if each["scope"] == "final"]
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
                noisy=passed and finals[0]["noisy"],
                judge=judged[-1]["judge_version"],
                roofline=float(stats.gmean(shares)) if shares and all(shares) else None,
            )
        )
    return found


def core() -> list[str]:
    """Return the slugs of the core tasks of a GPU."""
    tracks = tomllib.loads((ROOT / "arena/leaderboard/ranking/core.toml").read_text("utf-8"))["gpu"]
    return [f"{operator}/{track}" for track, names in tracks.items() for operator in names]


def load(lines: list[dict[str, Any]], path: Path) -> None:
    """Import these lines, without single cases, into an arena that has their tasks and the core."""
    hashes = {line["task"]["slug"]: line["task"]["hash"] for line in lines}
    for slug in {*hashes, *core()}:
        name, _, track = slug.partition("/")
        operator, _ = Operator.objects.get_or_create(
            slug=name,
            defaults={"title": name, "category": category_of(name), "level": 1, "prompt": ""},
        )
        task = Task.objects.create(operator=operator, track=track, status="published")
        TaskVersion.objects.create(task=task, content_hash=hashes.get(slug, "0" * 64))
    Agent.objects.create(slug="expert", title="Expert", adapter="expert", open_book=True)
    slim = [json.loads(json.dumps(line)) for line in lines]
    for line in slim:
        for submission in line["submissions"]:
            for evaluation in submission["evaluations"]:
                evaluation |= {"gates": [], "measurements": [], "report": {}, "private": {}}
    path.write_text("".join(json.dumps(line) + "\n" for line in slim))
    found = services.import_results(path)
    assert (len(found.loaded), found.refused) == (len(lines), [])


def assert_board_equals(
    client: Any, records: list[Record], by: str, tasks: Collection[str], **query: str
) -> list[dict[str, Any]]:
    """Compare every row that the API shows with the independent ranking; return the rows."""
    answer = client.get("/api/v1/leaderboard", {"generalization": by, **query}).json()
    score = {"sol": "sol"}.get(query.get("score", ""), "set")
    rows, expected = answer["rows"], ranking(records, by, tasks, score)
    assert answer["size"] == len(tasks)
    assert [row["agent"] for row in rows] == [row["agent"] for row in expected]
    for row, wanted in zip(rows, expected, strict=True):
        for name in ("rank", "tied", "unranked", "passed", "total", "tasks", "size", "noisy"):
            assert row[name] == wanted[name], (row["agent"], name)
        assert row["solved"] == pytest.approx(wanted["solved"], abs=1e-5)
        assert row["pass_rate"] == pytest.approx(wanted["pass_rate"], abs=1e-5)
        for prefix, name in (("", "seen"), ("unseen_", "unseen"), ("set_", "set")):
            ends = [row[f"{prefix}{end}"] for end in ("speedup", "low", "high")]
            if wanted[name] is None:
                assert ends == [None] * 3
            else:
                want = (wanted[name].value, wanted[name].low, wanted[name].high)
                assert ends == pytest.approx(want, rel=2e-4), (row["agent"], name)
        sol = wanted["sol"] and (wanted["sol"].value, wanted["sol"].low, wanted["sol"].high)
        got = tuple(row[f"sol_{end}"] for end in ("score", "low", "high"))
        assert got == (pytest.approx(sol, rel=2e-4) if sol else (None, None, None)), row["agent"]
        assert row["gap"] == (wanted["gap"] and pytest.approx(wanted["gap"]))
    return rows


def test_boards_of_judged_runs_equal_those_computed_from_single_cases(lines, client, tmp_path):
    load(lines, tmp_path / "runs.jsonl")
    records = records_of(lines)
    assert len(records) == 120
    every = {f"{task.operator.slug}/{task.track}" for task in Task.objects.all()}
    for by in BY:
        rows = assert_board_equals(client, records, by, core())
        assert [(row["agent"], row["unranked"]) for row in rows] == [
            ("tuner", "provisional"), ("expert", "open-book"),
        ]  # fmt: skip
    for category in sorted({category_of(slug.partition("/")[0]) for slug in every}):
        chosen = {slug for slug in every if category_of(slug.partition("/")[0]) == category}
        assert_board_equals(client, records, "unseen", chosen, category=category)
    for track in sorted({record.task.partition("/")[2] for record in records}):
        chosen = {slug for slug in every if slug.endswith(f"/{track}")}
        rows = assert_board_equals(client, records, "unseen", chosen, track=track)
        if track == "cuda-to-cuda":
            assert [(row["agent"], row["rank"]) for row in rows] == [("tuner", 1), ("expert", None)]
    by_sol = assert_board_equals(client, records, "unseen", every, task_set="all", score="sol")
    assert by_sol[0]["agent"] == "tuner" and by_sol[0]["sol_score"] > 0.5
    everything = assert_board_equals(client, records, "unseen", every, task_set="all")
    assert [row["agent"] for row in everything] == ["tuner", "torch-compile", "expert"]
    _assert_interval_is_that_of_random_errors(client, records, len(every))


def _assert_interval_is_that_of_random_errors(
    client: Any, records: list[Record], size: int
) -> None:
    """Draw the errors of all runs anew, many times: the quantiles are the ends of both intervals.

    The kernels that count over the set are those that were surely faster before.
    """
    rows = client.get("/api/v1/leaderboard", {"task_set": "all"}).json()["rows"]
    row = next(row for row in rows if row["agent"] == "expert")
    speedups = [r.unseen for r in records if r.agent == "expert" and r.unseen]
    assert len(speedups) == row["tasks"] == 84
    deviations = np.array(
        [
            math.hypot((math.log(s.high) - math.log(s.low)) / 2 / Z, VERDICT_TO_VERDICT)
            for s in speedups
        ]
    )
    logs = np.log([s.value for s in speedups])
    lows = np.log([s.low for s in speedups])
    faster = logs - np.hypot(logs - lows, Z * VERDICT_TO_VERDICT) > 0
    assert 0 < faster.sum() < len(faster)
    dice = np.random.default_rng(1)
    drawn = logs + stats.norm.rvs(0, deviations, (20_000, len(logs)), random_state=dice)
    for prefix, means in (
        ("unseen_", drawn.mean(axis=1)),
        ("set_", drawn[:, faster].sum(axis=1) / size),
    ):
        width = math.log(row[f"{prefix}high"] / row[f"{prefix}low"])
        for end, quantile in (("low", 0.025), ("high", 0.975)):
            wanted = np.quantile(means, quantile)
            assert math.log(row[f"{prefix}{end}"]) == pytest.approx(wanted, abs=0.05 * width)


def test_summary_of_each_judged_run_equals_that_of_its_cases(lines):
    """The columns of a run that boards read are those of its final verdict's single cases."""
    for line, record in zip(lines, records_of(lines), strict=True):
        run = line["run"]
        assert record.passed == (run["status"] == "passed")
        for prefix, speedup in (("", record.seen), ("unseen_", record.unseen)):
            stored = [run[f"{prefix}{name}"] for name in ("speedup", "low", "high")]
            wanted = [speedup.value, speedup.low, speedup.high] if speedup else [None] * 3
            assert stored == (pytest.approx(wanted, rel=2e-4) if speedup else wanted), run["id"]


@pytest.mark.parametrize("seed", range(3))
def test_board_of_random_results_equals_the_independent_one(client, hardware, alice, bob, seed):
    """Missing tasks, failures, empty, untimed, noisy and superseded runs, users and two judges."""
    dice = random.Random(seed)
    other = Hardware.objects.create(slug="other", name="Other", kind="cpu", queue="hw.other")
    tasks = [f"operator_{number}" for number in range(7)]
    records = []
    for number in range(120):
        agent, device = f"agent-{dice.randrange(9)}", dice.choice([hardware, hardware, other])
        outcome = dice.choice(["passed", "passed", "passed", "failed", "untimed", "empty"])
        level = 0.9 + int(agent[-1]) // 2 / 4  # pairs of agents are equally fast
        seen, unseen = (
            Speedup(value, value / width, value * width**1.5)
            for value, width in (
                (level * dice.lognormvariate(0, spread), dice.uniform(1.0, 1.1))
                for spread in (0.01, 0.05)
            )
        )
        record = Record(
            agent=agent,
            task=dice.choice([*tasks, tasks[0], tasks[1]]),
            device=device.slug,
            repeat=dice.choice([0, 0, 0, 1]),
            at=timezone.now() + timedelta(seconds=number),
            passed=outcome in ("passed", "untimed"),
            submitted=outcome != "empty",
            seen=seen if outcome == "passed" else None,
            unseen=unseen if outcome == "passed" and dice.random() < 0.9 else None,
            open_book=agent == "agent-5",
            noisy=outcome == "passed" and dice.random() < 0.2,
            user={"agent-6": "alice", "agent-7": "alice", "agent-8": "bob"}.get(agent, ""),
            judge=dice.choice(["9", "9", "9", "10"]),
            roofline=dice.choice([None, 1.05, *(dice.uniform(0.1, 1.0) for _ in range(6))]),
        )
        records.append(record)
        _store(record, device)
    Agent.objects.filter(slug="agent-5").update(open_book=True)
    for slug, owner in (("agent-6", alice), ("agent-7", alice), ("agent-8", bob)):
        Agent.objects.filter(slug=slug).update(adapter="external", owner=owner)
    touch()
    found = set()
    for device in (hardware, other):
        chosen = [record for record in records if record.device == device.slug]
        for by in BY:
            query = {"hardware": device.slug, "origin": "all"}
            assert_board_equals(client, chosen, by, tasks, **query, score="sol")
            rows = assert_board_equals(client, chosen, by, tasks, **query)
            assert len(rows) >= 5
            found |= {row["unranked"] for row in rows}
        own = [record for record in chosen if not record.user]
        assert_board_equals(client, own, "unseen", tasks, hardware=device.slug)
        brought = [record for record in chosen if record.user]
        query = {"hardware": device.slug, "origin": "external"}
        assert_board_equals(client, brought, "unseen", tasks, **query)
    assert found >= {"", "open-book"}


def _store(record: Record, device: Hardware) -> None:
    values: dict[str, Any] = {}
    for prefix, speedup in (("", record.seen), ("unseen_", record.unseen)):
        for name in ("value", "low", "high"):
            column = prefix + ("speedup" if name == "value" else name)
            values[column] = speedup and getattr(speedup, name)
    values |= {"status": "passed" if record.passed else "failed", "created_at": record.at}
    values |= {"noisy": record.noisy, "judge_version": record.judge}
    values |= {"rounds": int(record.submitted), "roofline_share": record.roofline}
    judged_run(record.agent, record.task, hardware=device, repeat=record.repeat, **values)


def test_hand_made_board_has_the_ranks_written_beside_it(client, hardware):
    """Ties, missing tasks and failures in one board of four tasks, by the methodology's rules."""
    expected = [
        # agent, speedups on the tasks that it solved, failed, rank, tied, over the set
        ("fast", [3.00, 3.00], 0, 1, False, 3**0.5),
        ("tied", [2.99, 2.99], 2, 2, True, 2.99**0.5),  # within the interval of the one above
        ("near", [2.60, 2.60], 0, 3, False, 2.6**0.5),
        ("slow", [0.50, 1.0005], 0, 4, False, 1.0),  # what is not surely faster counts as 1x
        ("wild", [50.0], 1, 5, False, 50**0.25),  # faster than all, but it solved less
        ("null", [], 2, 6, False, 1.0),
        ("zero", [], 3, 6, True, 1.0),  # equal to the one before
        ("newcomer", [99.0], 0, None, False, 99**0.25),  # it tried one of four tasks
    ]  # fmt: skip
    for slug, speedups, failed, *_ in expected:
        tasks = iter(["relu", "gelu", "silu", "mish"])
        for speedup in speedups:
            judged_run(slug, next(tasks), speedup, hardware=hardware, width=1.001)
        for _ in range(failed):
            judged_run(slug, next(tasks), hardware=hardware)
    judged_run("zero", "mish", hardware=hardware)
    answer = client.get("/api/v1/leaderboard").json()
    assert (answer["size"], answer["needed"]) == (4, 2)
    found = [(r["agent"], r["rank"], r["tied"], r["set_speedup"]) for r in answer["rows"]]
    assert found == [
        (slug, rank, tied, pytest.approx(value)) for slug, _, _, rank, tied, value in expected
    ]
    assert [row["unranked"] for row in answer["rows"]] == [*[""] * 7, "provisional"]
    by_agent = {row["agent"]: row for row in answer["rows"]}
    assert by_agent["slow"]["unseen_speedup"] == pytest.approx((0.5 * 1.0005) ** 0.5)
    assert (by_agent["wild"]["tasks"], by_agent["wild"]["solved"]) == (2, 1)


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
