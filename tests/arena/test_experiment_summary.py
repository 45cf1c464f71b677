"""Tests of the experiment summary and its page."""

from __future__ import annotations

import time
from functools import partial

import pytest
from django.utils import timezone

from arena.leaderboard.experiment_summary import experiment_summary
from arena.runs import experiments, services
from arena.runs.models import Experiment, Run
from tests.arena.factories import judged_run

pytestmark = pytest.mark.django_db
RELU, GELU = "relu/cpp-to-cpp", "gelu/cpp-to-cpp"


@pytest.fixture
def experiment(db):
    """Two agents on two tasks, twice."""
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


def test_runs_are_counted_against_the_plan(judged, experiment):
    judged("new", "relu", 2.0)
    judged("new", "gelu")
    judged("old", "relu", status="running")
    judged("old", "gelu", status="broken")
    judged("new", "relu", 2.0, repeat=7)
    found = summary(experiment)
    assert (found.judged, found.passed, found.active) == (3, 2, 1)
    assert experiments.plan_of(experiment).size() == 8
    assert missing(experiment) == 5, "three are there that the plan holds"


def test_a_run_that_is_hidden_is_not_missing(client, judged, experiment):
    for agent in ("new", "old"):
        for on in ("relu", "gelu"):
            for repeat in range(2):
                judged(agent, on, 2.0, repeat=repeat)
    hidden = Run.objects.first()
    services.show_run(hidden, "staff")
    page = client.get("/experiments/ab/")
    assert page.context["missing"] == 0 and page.context["summary"].judged == 7
    assert hidden.pk not in page.content.decode()


def test_what_is_missing_of_a_set_that_ran_elsewhere_nobody_knows(judged, experiment):
    judged("new", "relu", 2.0, imported_at=timezone.now())
    assert missing(experiment) is None


def test_a_plan_is_measured_without_going_through_its_cells(experiment):
    agents = [{"agent": f"a{n}"} for n in range(3000)] + [{"agent": "a1"}]
    experiment.plan |= {"agents": agents, "tasks": [f"t{n}/x" for n in range(3000)], "repeats": 100}
    began = time.process_time()
    plan = experiments.plan_of(experiment)
    assert plan.size() == 3000 * 3000 * 100
    assert all(plan.place("t2999/x", f"a{n}", "any", 0) for n in range(3000))
    assert plan.place("t2999/x", "b", "any", 0) is plan.place("t2999/x", "a1", "any", 100) is None
    assert time.process_time() - began < 3


def test_only_the_newest_attempt_at_a_repeat_counts(judged, experiment):
    judged("new", "relu", status="broken")
    judged("new", "relu", 2.0)
    judged("new", "relu", 8.0, repeat=1)
    (row,) = summary(experiment).rows
    (cell,) = row.cells
    assert [run.repeat for run in cell.runs] == [0, 1]
    assert cell.speedup.speedup == pytest.approx(4.0)


def test_agents_are_in_the_order_of_the_plan_and_tasks_by_name(judged, experiment):
    judged("other", "relu", 2.0)
    judged("old", "relu", 2.0)
    judged("new", "gelu", 2.0)
    found = summary(experiment)
    assert [agent.slug for agent in found.agents] == ["new", "old", "other"]
    assert [row.task.slug for row in found.rows] == [GELU, RELU]
    assert [cell and cell.runs[0].agent.slug for cell in found.rows[1].cells] == [
        None, "old", "other",
    ]  # fmt: skip


def test_an_agent_is_set_beside_the_first_on_what_both_passed(judged, experiment):
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
def test_a_plan_that_cannot_be_read_leaves_what_was_planned_open(judged, experiment, plan):
    experiment.plan = plan
    judged("new", "relu", 2.0)
    assert experiments.plan_of(experiment) is None
    assert summary(experiment).judged == 1


def test_the_page_shows_the_cells_the_pair_and_what_is_missing(client, judged, experiment):
    run = judged("new", "relu", 2.0)
    judged("old", "relu", 3.0)
    judged("old", "relu", status="failed", repeat=1)
    page = client.get("/experiments/ab/").content.decode()
    assert f'<a href="{run.get_absolute_url()}">2.00×</a>' in page
    assert ">failed</a>" in page and "old is 1.50 times as fast as new over 1 task" in page
    assert "Which?" in page and "<dd>5<small>run the command" in page
    listed = client.get("/experiments/").content.decode()
    assert "A or B" in listed and "new, old" in listed
    assert 'href="/experiments/ab/"' in client.get(run.get_absolute_url()).content.decode()


def test_who_cannot_be_set_beside_the_first_is_named(client, judged):
    judged("new", "relu")
    judged("old", "relu", 2.0)
    page = client.get("/experiments/ab/").content.decode()
    assert "lack of a task on which both have a speedup: old." in page


def test_an_experiment_is_there_for_who_may_see_a_run_of_it(client, judged, alice, charlie):
    private = judged("new", "relu", 2.0, owner=alice, visibility="owner")
    for who, status in ((None, 404), (charlie, 404), (alice, 200)):
        if who:
            client.force_login(who)
        assert client.get("/experiments/ab/").status_code == status
        assert ("A or B" in client.get("/experiments/").content.decode()) == (status == 200)
    judged("old", "relu", 2.0)
    client.force_login(charlie)
    assert private.pk not in client.get("/experiments/ab/").content.decode()


def test_without_experiments_the_page_says_how_to_start_one(client, db):
    assert "manage.py experiment demo" in client.get("/experiments/").content.decode()


def test_a_board_is_narrowed_to_an_experiment(client, judged, hardware):
    judged("new", "relu", 2.0)
    judged_run("else", "relu", 9.0, hardware=hardware)
    page = client.get("/leaderboard/?experiment=ab").content.decode()
    assert ">new</a>" in page and ">else</a>" not in page
    told = client.get("/api/v1/leaderboard?experiment=ab").json()
    assert [row["agent"] for row in told["rows"]] == ["new"]
    assert ">else</a>" in client.get("/leaderboard/").content.decode()
