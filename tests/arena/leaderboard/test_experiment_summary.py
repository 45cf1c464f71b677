"""Tests of the experiment summary and its page."""

from __future__ import annotations

import time
from functools import partial

import pytest
from django.utils import timezone

from arena.catalog.models import Agent
from arena.leaderboard.experiment_summary import experiment_summary
from arena.runs import experiments, services
from arena.runs.models import Experiment, Run
from tests.arena.factories import hide, judged_run

pytestmark = pytest.mark.django_db
RELU, GELU = "relu/cpp-to-cpp", "gelu/cpp-to-cpp"


@pytest.fixture
def experiment(db):
    """Return an experiment of two agents on two tasks with two repeats."""
    agents = [{"agent": "new"}, {"agent": "old"}]
    plan = {"slug": "ab", "title": "A or B", "agents": agents, "tasks": [RELU, GELU], "repeats": 2}
    return Experiment.objects.create(slug="ab", title="A or B", description="Which?", plan=plan)


@pytest.fixture
def judged(task, hardware, experiment):
    return partial(judged_run, hardware=hardware, experiment=experiment)


def summary(experiment):
    runs = Run.objects.with_names().filter(experiment=experiment)
    return experiment_summary(runs, experiments.plan_of(experiment))


def missing(experiment):
    plan = experiments.plan_of(experiment)
    return plan and experiments.missing(experiment, plan)


def test_experiment_counts_runs_against_its_plan(judged, experiment):
    judged("new", "relu", 2.0)
    judged("new", "gelu")
    judged("old", "relu", status="running")
    judged("old", "gelu", status="broken")
    judged("new", "relu", 2.0, repeat=7)
    found = summary(experiment)
    assert (found.judged, found.passed, found.active) == (3, 2, 1)
    assert experiments.plan_of(experiment).size() == 8
    assert missing(experiment) == 5, "three are there that the plan holds"


def test_hidden_run_is_not_missing(client, judged, experiment):
    for agent in ("new", "old"):
        for on in ("relu", "gelu"):
            for repeat in range(2):
                judged(agent, on, 2.0, repeat=repeat)
    hidden = Run.objects.first()
    hide(hidden)
    page = client.get("/experiments/ab/")
    assert page.context["missing"] == 0 and page.context["summary"].judged == 7
    assert hidden.pk not in page.content.decode()


def test_page_of_an_experiment_imported_in_part_names_its_missing_runs(client, judged, experiment):
    judged("new", "relu", 2.0, imported_at=timezone.now())
    page = " ".join(client.get("/experiments/ab/").content.decode().split())
    assert "measured in parts: 7 of its 8 runs have not been run yet" in page
    assert "<dd>7<small>not run, or not imported" in page


def test_huge_plan_is_measured_without_enumerating_its_cells(experiment):
    agents = [{"agent": f"a{n}"} for n in range(3000)] + [{"agent": "a1"}]
    experiment.plan |= {"agents": agents, "tasks": [f"t{n}/x" for n in range(3000)], "repeats": 100}
    began = time.process_time()  # waits: processor time; else it takes hours
    plan = experiments.plan_of(experiment)
    assert plan.size() == 3000 * 3000 * 100
    assert all(plan.place("t2999/x", f"a{n}", "any", 0) for n in range(3000))
    assert plan.place("t2999/x", "b", "any", 0) is plan.place("t2999/x", "a1", "any", 100) is None
    assert time.process_time() - began < 30  # waits: see above


def test_newest_attempt_at_a_repeat_counts(judged, experiment):
    judged("new", "relu", status="broken")
    judged("new", "relu", 2.0)
    judged("new", "relu", 8.0, repeat=1)
    (row,) = summary(experiment).rows
    (cell,) = row.cells
    assert [run.repeat for run in cell.runs] == [0, 1]
    assert cell.speedup.speedup == pytest.approx(4.0)


def test_runs_and_agents_in_quarantine_count_nowhere(client, judged, experiment):
    older = judged("new", "relu", 2.0)
    held = judged("new", "relu", 9.0)
    judged("old", "relu", 8.0)
    services.quarantine(held, "It read the clock of the judge.")
    services.quarantine(Agent.objects.get(slug="old"), "It submits kernels of others.")
    found = summary(experiment)
    assert [agent.slug for agent in found.agents] == ["new"]
    assert [run.pk for run in found.rows[0].cells[0].runs] == [older.pk]
    [standings] = found.standings
    assert [(row.agent.slug, row.total) for row in standings.ranking.rows] == [("new", 1)]
    assert (found.judged, found.passed) == (1, 1)
    services.quarantine(older, "So did this one.")
    page = client.get("/experiments/ab/").content.decode()
    assert "No run of this experiment has been judged." in page


def test_summary_orders_agents_by_plan_and_tasks_by_name(judged, experiment):
    judged("other", "relu", 2.0)
    judged("old", "relu", 2.0)
    judged("new", "gelu", 2.0)
    found = summary(experiment)
    assert [agent.slug for agent in found.agents] == ["new", "old", "other"]
    assert [row.task.slug for row in found.rows] == [GELU, RELU]
    assert [cell and cell.runs[0].agent.slug for cell in found.rows[1].cells] == [
        None, "old", "other",
    ]  # fmt: skip


def test_agent_is_compared_with_the_first_on_common_tasks(judged, experiment):
    judged("new", "relu", 2.0, width=1.01)
    judged("old", "relu", 4.0, width=1.01)
    judged("new", "gelu", 3.0, width=1.01)
    judged("old", "gelu", 3.01, width=1.01)
    judged("old", "tanh", 9.0)
    judged("other", "tanh", 9.0)
    found = summary(experiment)
    (comparison,) = found.comparisons
    assert (comparison.first.slug, comparison.agent.slug) == ("new", "old")
    assert comparison.over.speedup == pytest.approx((2 * 3.01 / 3) ** 0.5)
    assert (comparison.ahead, comparison.behind, comparison.level, comparison.common) == (
        1,
        0,
        1,
        2,
    )
    assert comparison.summary == (
        "old is 1.42 times as fast as new over 2 tasks that both passed: faster on 1, slower on 0, "
        "no significant difference on 1."
    )
    assert [agent.slug for agent in found.no_common_task] == ["other"]


@pytest.mark.parametrize(
    "plan", [{}, {"repeats": 1}, {"slug": "x", "title": "x", "agents": [], "repeats": 10**12}]
)
def test_unreadable_plan_leaves_the_planned_count_unknown(judged, experiment, plan):
    experiment.plan = plan
    judged("new", "relu", 2.0)
    assert experiments.plan_of(experiment) is None
    assert summary(experiment).judged == 1


def test_experiment_page_shows_cells_comparison_and_missing_runs(client, judged, experiment):
    run = judged("new", "relu", 2.0)
    judged("old", "relu", 3.0)
    judged("old", "relu", status="failed", repeat=1)
    page = client.get("/experiments/ab/").content.decode()
    assert f'<a href="{run.get_absolute_url()}">2.00×</a>' in page
    assert ">failed</a>" in page and "old is 1.50 times as fast as new over 1 task" in page
    assert "Which?" in page and "<dd>5<small>cancelled, broken or left out" in page
    listed = client.get("/experiments/").content.decode()
    assert "A or B" in listed and "new, old" in listed
    assert 'href="/experiments/ab/"' in client.get(run.get_absolute_url()).content.decode()


def test_agent_without_common_task_is_named(client, judged):
    judged("new", "relu")
    judged("old", "relu", 2.0)
    page = " ".join(client.get("/experiments/ab/").content.decode().split())
    assert "new has no speedup on a task in common with old, so these are not compared." in page


def test_experiment_is_visible_with_one_of_its_runs(client, judged, alice, charlie):
    private = judged("new", "relu", 2.0, owner=alice, visibility="owner")
    for who, status in ((None, 404), (charlie, 404), (alice, 200)):
        if who:
            client.force_login(who)
        assert client.get("/experiments/ab/").status_code == status
        assert ("A or B" in client.get("/experiments/").content.decode()) == (status == 200)
    judged("old", "relu", 2.0)
    client.force_login(charlie)
    assert private.pk not in client.get("/experiments/ab/").content.decode()


def test_experiment_list_when_empty_shows_how_to_start_one(client, db):
    assert "manage.py experiment demo" in client.get("/experiments/").content.decode()


def test_board_filters_by_experiment(client, judged, hardware):
    judged("new", "relu", 2.0)
    judged_run("else", "relu", 9.0, hardware=hardware)
    page = client.get("/leaderboard/?experiment=ab").content.decode()
    assert ">new</a>" in page and ">else</a>" not in page
    board = client.get("/api/v1/leaderboard?experiment=ab").json()
    assert [row["agent"] for row in board["rows"]] == ["new"]
    assert ">else</a>" in client.get("/leaderboard/").content.decode()


def test_experiment_page_compares_cost_and_tokens(client, judged, experiment):
    judged("new", "relu", 2.0, cost_usd=1.0, tokens=20_000)
    judged("new", "gelu", cost_usd=0.5, tokens=10_000)
    judged("old", "relu", 1.5, tokens=700)
    (standings,) = summary(experiment).standings
    rows = {row.agent.slug: row for row in standings.ranking.rows}
    assert (rows["new"].cost_per_solved, rows["new"].solved, rows["new"].tasks) == (1.5, 1, 2)
    assert rows["old"].unpriced
    page = client.get("/experiments/ab/").content.decode()
    assert "$1.50" in page and "30.0k tokens" in page and ">price unknown</span>" in page


def test_owner_continues_the_interrupted_runs_of_an_experiment(client, judged, experiment, alice):
    address = "/experiments/ab/continue/"
    for repeat in range(2):
        judged("new", "relu", status="broken", repeat=repeat, owner=alice)
    judged("old", "relu", status="broken")
    assert client.post(address).headers["Location"] == "/login/"
    assert "interrupted" not in client.get("/experiments/ab/").content.decode()
    client.force_login(alice)
    assert "Continue 2 interrupted runs" in client.get("/experiments/ab/").content.decode()
    page = client.post(address, follow=True)
    assert "2 runs continued." in page.content.decode()
    assert Run.objects.filter(continues__owner=alice, status="queued").count() == 2
    assert "Continue" not in page.content.decode()
    assert "No run of this experiment waits" in client.post(address, follow=True).content.decode()
    assert Run.objects.count() == 5
