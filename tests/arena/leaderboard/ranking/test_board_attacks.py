"""Ways in which a board was once taken, through the API and on the pages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone

from arena.accounts.models import ApiToken
from arena.catalog.models import Agent, Task, TaskVersion
from arena.leaderboard.ranking import results
from arena.leaderboard.ranking.boards import leaders
from arena.runs import services
from arena.runs.models import Evaluation, Experiment, Run
from arena.runs.scoring.standings import touch
from tests.arena.factories import judge, judged_run, report
from tests.arena.leaderboard.ranking.test_rankings_independent import lines, load  # noqa: F401  (a fixture)

pytestmark = pytest.mark.django_db
RUNS = "/api/v1/runs"


class Visitor:
    """A user with an agent of their own, that calls the API."""

    def __init__(self, client: Any, user: Any) -> None:
        cache.clear()
        _, secret = ApiToken.issue(user, "agent", ("ingest", "read"))
        self.client, self.headers = client, {"authorization": f"Bearer {secret}"}

    def post(self, path: str, body: Any = None) -> Any:
        data = json.dumps(body or {})
        answer = self.client.post(RUNS + path, data, "application/json", headers=self.headers)
        assert answer.status_code < 300, answer.content
        return answer.json()

    def run(self, task: str, name: str, source: str = "", **verdict: Any) -> None:
        """Let an agent of this name work on a task; it submits nothing without a source."""
        run = self.post("", {"task": task, "external": {"name": name}})["id"]
        if source:
            self.post(f"/{run}/verdicts", {"source": source})
            self._judge(run, **verdict)
        self.post(f"/{run}/finish")
        if source:
            self._judge(run, **verdict)
        assert Run.objects.get(pk=run).ended

    def _judge(self, run: str, **verdict: Any) -> None:
        pending = Evaluation.objects.get(submission__run=run, status="queued")
        values = {"speedup": 1.0, "unseen": 1.0, "task_hash": pending.judged_version.content_hash}
        judge(pending, report(**values | verdict))


def rows(client: Any, **query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/api/v1/leaderboard", query).json()["rows"]
    return found


def figures(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the arena's agents."""
    return [row for row in listed if not row["agent"].startswith(("alice", "bob"))]


def first_of_page(client: Any, **query: str) -> tuple[str, int | None]:
    row = client.get("/leaderboard/", query).context["rows"][0]
    return row.agent.slug, row.rank


@pytest.fixture
def leader(task, agent, hardware) -> None:
    """A board whose only agent solved 24 of 24 tasks."""
    judged_run("tuner", "relu", 2.0, hardware=hardware)
    for number in range(23):
        judged_run("tuner", f"operator_{number}", 2.0, hardware=hardware)
    public = TaskVersion.objects.get(task__operator__slug="relu").public
    TaskVersion.objects.update(public=public)


def test_newcomer_with_an_empty_run_takes_no_rank(client, leader, alice):
    before = {origin: rows(client, origin=origin) for origin in ("arena", "all")}
    assert [(row["agent"], row["rank"], row["pass_rate"]) for row in before["arena"]] == [
        ("tuner", 1, 1.0)
    ]
    Visitor(client, alice).run("relu/cpp-to-cpp", "Nothing")
    assert Run.objects.get(agent__slug="alice-nothing").status == "failed"
    for origin, kept in before.items():
        found = rows(client, origin=origin)
        assert [row for row in found if row["unranked"] != "no-submission"] == kept
        assert [row["rank"] for row in found[len(kept) :]] == [None] * (origin == "all")
        assert first_of_page(client, origin=origin) == ("tuner", 1)
    assert [row["unranked"] for row in rows(client, origin="external")] == ["no-submission"]


@pytest.mark.parametrize("names", [["Copy"], ["One", "Two", "Three"]])
def test_newcomer_with_a_copied_source_is_provisional(client, leader, alice, names):
    before = rows(client, origin="all")
    visitor = Visitor(client, alice)
    for name in names:
        visitor.run("relu/cpp-to-cpp", name, source="int copied;", unseen=50.0)
    listed = rows(client, origin="all")
    assert figures(listed) == before
    others = [row for row in listed if row not in before]
    assert [(row["rank"], row["unranked"]) for row in others] == [(None, "provisional")] * len(
        names
    )
    page = client.get("/leaderboard/?origin=all").content.decode()
    assert page.index(">Tuner</a>") < page.index("Provisional: fewer than 12 of the 24 tasks tried")
    assert rows(client) == before  # where agents of users are not even listed


def test_user_with_many_agents_has_one_rank(client, leader, alice, bob):
    for number in range(3):
        for task in Task.objects.all():
            name = task.operator.slug
            judged_run(f"alice-{number}", name, 3.0 + number, hardware=hardware_of("relu"))
    judged_run("bob-0", "relu", 9.0, hardware=hardware_of("relu"))
    for user in (alice, bob):
        own = Agent.objects.filter(slug__startswith=user.username)
        own.update(adapter="external", owner=user)
    touch()
    listed = [(row["agent"], row["rank"], row["unranked"]) for row in rows(client, origin="all")]
    assert listed == [
        ("alice-2", 1, ""),
        ("tuner", 2, ""),
        ("bob-0", None, "provisional"),
        ("alice-1", None, "same-user"),
        ("alice-0", None, "same-user"),
    ]
    page = client.get("/leaderboard/?origin=external").content.decode()
    assert "another agent of the same user has a rank" in page and "brought by alice" in page


@pytest.mark.parametrize("speedup", [None, 9.0])
def test_repeats_of_a_user_count_only_where_the_arena_has_no_run(client, leader, alice, speedup):
    own = {"owner": alice, "hardware": hardware_of("relu"), "repeat": 1}
    judged_run("tuner", "operator_0", 1.5, hardware=own["hardware"], judge_version="2")
    queries: list[dict[str, str]] = [{}, {"judge": "1"}, {"judge": "2"}]
    before = [rows(client, **query) for query in queries]
    judged_run("tuner", "relu", speedup, **own)
    judged_run("tuner", "operator_0", speedup, **own | {"judge_version": "2"})
    assert [rows(client, **query) for query in queries] == before
    judged_run("torch-compile", "relu", speedup, **own)
    alone = [row for row in rows(client) if row["agent"] == "torch-compile"]
    assert [row["total"] for row in alone] == [1]


def test_experiment_of_a_user_is_marked_among_the_filters(client, leader, alice):
    for slug, owner in (("own", None), ("theirs", alice)):
        titled = Experiment.objects.create(slug=slug, title="Official comparison")
        judged_run(slug, "relu", 2.0, owner=owner, experiment=titled, hardware=hardware_of("relu"))
    page = client.get("/leaderboard/").content.decode()
    assert ">Official comparison (1)</option>" in page
    assert ">Official comparison, of a user (1)</option>" in page


@pytest.mark.parametrize("of_arena", [True, False])
def test_users_choose_no_judge_of_a_board(client, leader, alice, of_arena):
    queries: list[dict[str, str]] = [{}, {"origin": "all"}]
    before = [figures(rows(client, **query)) for query in queries]
    device = hardware_of("relu")
    fastest = leaders(device.slug)
    for task in Task.objects.all():
        judged_run("alice-slow", task.operator.slug, 0.5, owner=alice, hardware=device,
                   judge_version="2")  # fmt: skip
    if not of_arena:
        Agent.objects.filter(slug="alice-slow").update(adapter="external", owner=alice)
        touch()
    assert [figures(rows(client, **query)) for query in queries] == before
    assert leaders(device.slug) == fastest
    origin = "arena" if of_arena else "external"
    [asked_for] = rows(client, judge="2", origin=origin)
    assert (asked_for["agent"], asked_for["rank"]) == ("alice-slow", 1)
    newer = judged_run("tuner", "relu", 1.5, hardware=device, judge_version="3")
    assert leaders(device.slug)[newer.task_version.task_id].run == newer.pk


def hardware_of(operator: str) -> Any:
    run = Run.objects.filter(task_version__task__operator__slug=operator).first()
    assert run
    return run.hardware


@pytest.mark.parametrize("version", ["3", "7"])
def test_newcomer_takes_nothing_of_judged_results(
    lines,  # noqa: F811
    client,
    tmp_path,
    alice,
    bob,
    version,
):
    """Nor does the first verdict by a newer judge empty a board."""
    load(lines, tmp_path / "runs.jsonl")
    queries = [
        {"origin": origin, **more}
        for origin in ("arena", "all")
        for more in ({}, {"track": "cuda-to-cuda"}, {"category": "Math"}, {"task_set": "all"})
    ]
    before = [rows(client, **query) for query in queries]
    track = rows(client, track="cuda-to-cuda")
    assert (track[0]["agent"], track[0]["rank"], track[0]["tasks"]) == ("tuner", 1, 12)
    TaskVersion.objects.update(public={"target_file": "kernel.cu", "kind": "gpu"})
    Visitor(client, alice).run("matmul/cuda-to-cuda", "Nothing")
    copied: dict[str, Any] = {"source": "int copied;", "unseen": 40.0, "judge_version": version}
    Visitor(client, bob).run("softmax/cuda-to-cuda", "Copy", **copied)
    for query, kept in zip(queries, before, strict=True):
        assert figures(rows(client, **query)) == kept, query
    assert first_of_page(client, track="cuda-to-cuda", origin="all") == ("tuner", 1)


def test_board_without_a_choice_is_one_with_ranks(lines, client, tmp_path):  # noqa: F811
    load(lines, tmp_path / "runs.jsonl")
    answer = client.get("/leaderboard/", follow=True)
    assert answer.context["filters"].track == "cuda-to-cuda"
    core = client.get("/leaderboard/", {"track": ""}).content.decode()
    assert "No agent has a rank here" in core and "of cuda-to-cuda</a>" in core


def test_experiment_with_nothing_solved_never_ranks_above_a_solved_task(client, task, hardware):
    """Where the agents of an experiment share no task."""
    plan = {
        "slug": "duel",
        "title": "Duel",
        "agents": [
            {"agent": "loser", "tasks": ["gelu/cpp-to-cpp"]},
            {"agent": "winner", "tasks": ["relu/cpp-to-cpp"]},
        ],
    }
    duel = Experiment.objects.create(slug="duel", title="Duel", plan=plan)
    values = {"hardware": hardware, "experiment": duel, "ended_at": timezone.now()}
    judged_run("loser", "gelu", **values)
    judged_run("winner", "relu", 1.1, **values)
    listed = rows(client, experiment="duel")
    assert [(row["agent"], row["rank"], row["pass_rate"]) for row in listed] == [
        ("winner", 1, 0.5),
        ("loser", 2, 0.0),
    ]
    assert first_of_page(client, experiment="duel") == ("winner", 1)
    page = client.get("/experiments/duel/")
    [standings] = page.context["summary"].standings
    assert [(row.agent.slug, row.rank) for row in standings.ranking.rows] == [
        ("winner", 1), ("loser", 2),
    ]  # fmt: skip
    text = page.content.decode()
    assert text.index(">winner</a>") < text.index(">loser</a>")


def test_experiment_of_judged_runs_ranks_what_is_solved_first(lines, client, tmp_path):  # noqa: F811
    """Two judged runs whose agents share no task, of which one failed."""
    load(lines, tmp_path / "runs.jsonl")
    before = rows(client, track="cuda-to-cuda")
    judged = Run.objects.filter(agent__open_book=False).order_by("pk")
    lost = judged.filter(status="failed").first()
    alike = {"hardware": lost.hardware, "judge_version": lost.judge_version, "status": "passed"}
    others = judged.exclude(agent=lost.agent).exclude(task_version__task=lost.task_version.task)
    won = others.filter(**alike).first()
    plan = {
        "slug": "duel",
        "title": "Duel",
        "agents": [
            {"agent": run.agent.slug, "tasks": [run.task_version.task.slug]} for run in (lost, won)
        ],
    }
    duel = Experiment.objects.create(slug="duel", title="Duel", plan=plan)
    Run.objects.filter(pk__in=(lost.pk, won.pk)).update(experiment=duel)
    results.forget()  # a run does not change its experiment later
    listed = [
        (row["agent"], row["rank"], row["pass_rate"]) for row in rows(client, experiment="duel")
    ]
    assert listed == [(won.agent.slug, 1, 0.5), (lost.agent.slug, 2, 0.0)]
    assert first_of_page(client, experiment="duel") == (won.agent.slug, 1)
    assert rows(client, track="cuda-to-cuda") == before


def test_disqualified_entries_leave_the_ranks_with_a_public_reason(client, leader, hardware):
    cheat = judged_run("cheat", "relu", 9.0, hardware=hardware)
    liar = judged_run("liar", "relu", 8.0, hardware=hardware)
    services.quarantine(cheat, "It read the clock of the judge.")
    services.quarantine(Agent.objects.get(slug="liar"), "It submits kernels of others.")
    assert [row["agent"] for row in rows(client)] == ["tuner"]
    page = client.get("/leaderboard/").content.decode()
    for run, reason in ((cheat, "read the clock"), (liar, "submits kernels of others")):
        assert reason in page
        assert client.get(f"/runs/{run.pk}/").status_code == 200
    assert f'href="/runs/{cheat.pk}/"' in page and 'href="/agents/liar/"' in page
