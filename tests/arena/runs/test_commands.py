"""Tests of the management commands for runs and experiments."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from arena.catalog.models import Agent, Task, TaskVersion, Worker
from arena.errors import UserError
from arena.runs import experiments, services
from arena.runs.models import Experiment, Run
from tests.arena.factories import LEASE, finished
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.django_db


def call(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out, stderr=out)
    return out.getvalue()


@pytest.fixture
def workers(hardware) -> None:
    for queue in ("agents", "build", hardware.queue):
        Worker.objects.create(name=queue, queues=[queue], pid=1)


@pytest.fixture
def in_background():
    """Return a function that runs work in a thread with its own database connection."""
    threads = []

    def begin(work: Callable[[], object]) -> None:
        def body() -> None:
            try:
                work()
            finally:
                connection.close()

        threads.append(threading.Thread(target=body))
        threads[-1].start()

    yield begin
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def next_run() -> Run:
    """Return the queued run, as soon as there is one."""
    return until(Run.objects.filter(status="queued").first, "a queued run")


# run

RUN = ("run", "--agent", "tuner", "--task", "relu/cpp-to-cpp")


@pytest.mark.django_db(transaction=True)
def test_run_prints_events_up_to_the_verdict(task, agent, workers, in_background, valkey):
    in_background(lambda: finished(next_run(), speedup=1.5))
    output = call(*RUN, "--rounds", "3")
    assert "round 1: relu.cpp" in output
    assert "correctness     passed" in output
    assert (
        "relu/cpp-to-cpp by tuner on test-cpu: passed, 1.50x [1.42, 1.58] on public cases" in output
    )
    assert Run.objects.get().budget["rounds"] == 3


@pytest.mark.django_db(transaction=True)
def test_run_that_failed_exits_with_1(task, agent, workers, in_background, valkey):
    in_background(lambda: finished(next_run(), verdict="failed"))
    with pytest.raises(SystemExit) as exited:
        call(*RUN)
    assert exited.value.code == 1


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("agents", "no agent worker is online .run `make arena`"),
        ("build", "no build worker is online"),
        ("hw.test-cpu", "no worker for Test CPU is online.* on a machine with this device"),
    ],
)
def test_run_without_a_worker_for_a_queue_is_refused(task, agent, workers, missing, message):
    Worker.objects.filter(name=missing).delete()
    with pytest.raises(CommandError, match=f"The run was not started: {message}"):
        call(*RUN)
    assert not Run.objects.exists()


def test_run_whose_worker_takes_no_work_is_refused_with_its_problem(task, agent, workers):
    Worker.objects.filter(name="hw.test-cpu").update(problem="Its disk is full.")
    with pytest.raises(CommandError, match=r"for Test CPU takes no work \(Its disk is full\)\."):
        call(*RUN)


def test_run_with_an_invalid_request_is_refused(task, agent, workers):
    with pytest.raises(CommandError, match=r"no agent 'nobody'.*tuner"):
        call("run", "--agent", "nobody", "--task", "relu/cpp-to-cpp")
    with pytest.raises(CommandError, match="budget of rounds is 999"):
        call(*RUN, "--rounds", "999")
    for name in ("rounds", "seconds"):
        with pytest.raises(CommandError, match=f"budget of {name} is 0"):
            call(*RUN, f"--{name}", "0")


def test_run_interrupted_is_cancelled(task, agent, workers, monkeypatch):
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    with pytest.raises(SystemExit):
        call(*RUN)
    assert Run.objects.get().status == "cancelled"


# experiment


@pytest.fixture
def plan(tmp_path, task, agent, hardware) -> Path:
    path = tmp_path / "pair.toml"
    path.write_text(
        'title = "Pair"\nagents = ["tuner"]\ntasks = ["relu/cpp-to-cpp"]\nrepeats = 2\n'
        "[budget]\nrounds = 2\n"
    )
    return path


def test_experiment_starts_its_runs_once(plan):
    assert "2 started, 0 there" in call("experiment", str(plan))
    runs = Run.objects.order_by("repeat")
    assert [(run.repeat, run.label, run.budget["rounds"]) for run in runs] == [
        (0, "pair", 2),
        (1, "pair", 2),
    ]
    finished(runs[0])
    assert "0 started, 2 there" in call("experiment", str(plan))


def test_experiment_restarts_broken_and_cancelled_runs(plan):
    call("experiment", str(plan))
    first, second = Run.objects.all()
    services.cancel_run(first, None)
    services.claim_run(second.pk, LEASE)
    services.finish_run(second.pk, LEASE, "broken", "The disk is full.", "arena")
    assert "2 started, 0 there" in call("experiment", str(plan))
    assert Experiment.objects.get().runs.count() == 4


def test_experiment_with_wait_prints_the_results(plan, monkeypatch):
    call("experiment", str(plan))
    for run in Run.objects.all():
        finished(run)
    output = call("experiment", str(plan), "--wait")
    assert output.count(": passed, 2.00x") == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agents = ", "Invalid|Expected|Unexpected"),
        ('agents = ["tuner"]\ntasks = []\ntitle = "x"', "tasks is \\[\\]"),
        ('agents = ["tuner"]\ntasks = ["relu/cpp-to-cpp"]', "title is missing"),
        (f'title = "{"x" * 201}"\nagents = ["tuner"]\ntasks = ["a/b"]', "title is 'x.* 1 to 200"),
        ('title = ""\nagents = ["tuner"]\ntasks = ["a/b"]', "title is ''"),
        ('title = "a\\u0000"\nagents = ["tuner"]\ntasks = ["a/b"]', "title is 'a.x00'"),
        ('title = "x"\nagents = "tuner"\ntasks = ["a/b"]', "agents should be a list"),
        ('title = "x"\nagents = ["tuner"]\ntasks = ["a/b"]\nrepeats = 0', "repeats is 0"),
        ('title = "x"\nagents = ["tuner"]\ntasks = ["a/b"]\ncolour = 1', "colour is not known"),
        (
            'title = "x"\nagents = ["tuner"]\ntasks = ["a/b"]\nbudget = 1',
            "budget should be an object",
        ),
        ('title = "x"\nagents = ["tuner"]\ntasks = ["relu/cpp-to-cpp", "a/b"]', "no task 'a/b'"),
    ],
)
def test_experiment_with_an_invalid_plan_starts_nothing(plan, text, message):
    plan.write_text(text)
    with pytest.raises(CommandError, match=message):
        call("experiment", str(plan))
    assert not Run.objects.exists() and not Experiment.objects.exists()


@pytest.mark.parametrize("stem", ["a b", "x" * 101, "a\0b", "ä", ""])
def test_experiment_with_an_invalid_file_name_is_refused(plan, stem):
    with pytest.raises(CommandError, match=r"names no experiment. Call the file letters of ASCII"):
        call("experiment", str(plan.with_name("p") / f"{stem}.toml"))


@pytest.mark.parametrize("name", ["no\0where", "../settings", "no\0where/a.toml"])
def test_experiment_name_that_is_no_path_is_refused(plan, name):
    with pytest.raises(CommandError, match=r"There is no experiment|embedded null byte"):
        call("experiment", name)


def test_experiment_expands_globs_and_applies_settings_of_agents(plan):
    plan.write_text(
        'title = "x"\ntasks = ["*/cpp-to-*"]\n[budget]\nrounds = 2\n'
        '[[agents]]\nagent = "tuner"\n'
        '[[agents]]\nagent = "tuner"\nname = "tuner-7"\nsettings = { seed = 7 }\n'
        'tasks = ["relu/cpp-to-cpp"]\nbudget = { rounds = 5 }\n'
    )
    assert "2 started, 0 there" in call("experiment", str(plan))
    plain, other = Run.objects.order_by("agent__slug")
    assert (plain.agent.slug, plain.budget["rounds"]) == ("tuner", 2)
    assert (other.agent.slug, other.budget["rounds"]) == ("tuner-7", 5)
    assert (other.agent.adapter, other.agent.settings) == ("tuner", {"seed": 7})
    assert "0 started, 2 there" in call("experiment", str(plan))


UNKNOWN = 'title = "x"\ntasks = ["{task}"]\n[[agents]]\nagent = "{agent}"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (UNKNOWN.format(task="a/b", agent="tuner"), "no task 'a/b'"),
        (UNKNOWN.format(task="*/b", agent="tuner"), "No task matches '.*/b'"),
        (UNKNOWN.format(task="relu/cpp-to-cpp", agent="nobody"), "no agent 'nobody'"),
        (
            UNKNOWN.format(task="relu/cpp-to-cpp", agent="tuner") + 'name = "t"\nmodel = "m"',
            "its harness uses none",
        ),
        (
            UNKNOWN.format(task="relu/cpp-to-cpp", agent="tuner") + "budget = { rounds = 0 }",
            "budget of rounds is 0",
        ),
    ],
)
def test_check_of_a_plan_refuses_names_that_do_not_exist(plan, text, message):
    plan.write_text(text)
    with pytest.raises(UserError, match=message):
        experiments.check(experiments.read_plan(str(plan)))


def test_check_of_a_right_plan_changes_nothing(plan):
    plan.write_text(
        UNKNOWN.format(task="relu/*", agent="tuner") + 'name = "t"\nsettings = { seed = 7 }'
    )
    experiments.check(experiments.read_plan(str(plan)))
    assert not Agent.objects.filter(slug="t").exists() and not Experiment.objects.exists()


def test_plan_orders_runs_by_its_own_tasks_first():
    plan = experiments.Plan(
        slug="p",
        title="P",
        tasks=["c/x", "a/y"],
        agents=[
            experiments.Entrant(agent="one", tasks=["a/x", "b/x", "c/x"]),
            experiments.Entrant(agent="two", tasks=["a/y"]),
            experiments.Entrant(agent="three"),
        ],
    )
    found = [(task, entrant.slug) for task, entrant, _, _ in plan.cells()]
    first = [("c/x", "one"), ("c/x", "three"), ("a/y", "two"), ("a/y", "three")]
    assert found == [*first, ("a/x", "one"), ("b/x", "one")]
    assert len(found) == plan.size()


VARIED = '[[agents]]\nagent = "tuner"\nname = "t"\nsettings = {{ seed = {} }}'


@pytest.mark.parametrize(
    ("agents", "message"),
    [
        ('agents = ["tuner", "tuner"]', "tuner enters twice"),
        ('[[agents]]\nagent = "tuner"\nsettings = { a = 1 }', "tuner has settings"),
        ('[[agents]]\nagent = "tuner"\nname = "x"', "x has neither settings nor"),
        ('[[agents]]\nagent = "tuner"\nmodel = "m"', "tuner has a model"),
        ('[[agents]]\nagent = "tuner"\nname = "t"\nmodel = "a\\nb"', "the model of t is"),
        ('[[agents]]\nagent = "tuner"\nname = "t"\nmodel = "m"', "its harness uses none"),
        ('[[agents]]\nname = "x"', "agents.0.agent is missing"),
        ('[[agents]]\nagent = "tuner"\nname = "a b/<c>"\nsettings = { a = 1 }', "called 'a b/<c>'"),
        (f'[[agents]]\nagent = "tuner"\nname = "{"x" * 101}"\nsettings = {{ a = 1 }}', "called 'x"),
        ('agents = ["a\\u0000b"]', "letters of ASCII, digits, - and _"),
        (VARIED.format("inf"), "settings of t: Out of range float values.* finite numbers"),
        (VARIED.format("[nan]"), "settings of t: Out of range float values.* finite numbers"),
        (VARIED.format("2024-01-01"), "settings of t: Object of type date is not JSON"),
        ('[[agents]]\nagent = "nobody"\nname = "x"\nsettings = { a = 1 }', "no agent 'nobody'"),
    ],
)
def test_experiment_with_invalid_agents_starts_nothing(plan, agents, message):
    plan.write_text(f'title = "x"\ntasks = ["relu/cpp-to-cpp"]\n{agents}\n')
    with pytest.raises(CommandError, match=message):
        call("experiment", str(plan))
    assert not Run.objects.exists()


def test_experiment_with_a_glob_without_tasks_is_refused(plan):
    plan.write_text('title = "x"\nagents = ["tuner"]\ntasks = ["*/cuda-to-cuda"]\n')
    with pytest.raises(CommandError, match=r"No task matches '\*/cuda-to-cuda'"):
        call("experiment", str(plan))


def test_experiment_leaves_out_tasks_without_hardware(plan, task):
    Task.objects.create(operator=task.operator, track="cuda-to-cuda", status="published")
    version = {"content_hash": "b" * 64, "public": task.version.public}
    TaskVersion.objects.create(task=Task.objects.get(track="cuda-to-cuda"), **version)
    plan.write_text('title = "x"\nagents = ["tuner"]\ntasks = ["relu/*"]\n')
    output = call("experiment", str(plan))
    assert "left out: relu/cuda-to-cuda by tuner: Test CPU cannot judge" in output
    assert "1 started" in output
    plan.write_text('title = "x"\nagents = ["tuner"]\ntasks = ["*/cuda-to-cuda"]\n')
    Run.objects.all().delete()
    with pytest.raises(CommandError, match="None of it can be judged here"):
        call("experiment", str(plan))


def test_experiment_with_export_writes_judged_runs(plan, tmp_path):
    call("experiment", str(plan))
    for run in Run.objects.all():
        finished(run)
    output = call("experiment", str(plan), "--wait", "--export", str(tmp_path / "r.jsonl"))
    assert "r.jsonl: 2 judged runs written." in output


def test_experiment_whose_export_cannot_be_written_starts_no_run(plan, tmp_path):
    for place in (tmp_path, tmp_path / "none" / "r.jsonl"):
        with pytest.raises(CommandError, match="cannot be written: name a file"):
            call("experiment", str(plan), "--export", str(place))
    assert not Run.objects.exists()


@pytest.mark.parametrize("name", ["r.csv", "r", "r.xz.json"])
def test_experiment_whose_export_has_another_form_starts_no_run(plan, tmp_path, name):
    with pytest.raises(CommandError, match=f"{name}: name a file that ends in .jsonl, .gz or .xz"):
        call("experiment", str(plan), "--export", str(tmp_path / name))
    assert not Run.objects.exists()


def test_experiment_with_an_unknown_name_lists_the_known():
    with pytest.raises(CommandError, match=r"no experiment 'nope'.*demo"):
        call("experiment", "nope")


def test_experiment_list_names_readable_plans():
    assert "demo" in experiments.built_in()
    output = call("experiment", "--list")
    for name in experiments.built_in():
        assert name in output and list(experiments.read_plan(name).cells())


@pytest.mark.parametrize("number", ["0", "-2"])
def test_experiment_refuses_fewer_than_one_run_at_a_time(number: str) -> None:
    with pytest.raises(CommandError, match=f"--at-once {number}: name a whole number"):
        call("experiment", "any", "--until-done", f"--at-once={number}")
    assert not Experiment.objects.exists()


@pytest.mark.parametrize("option", ["--at-once=2", "--start-within=9", "--continue=r.jsonl"])
def test_experiment_option_for_until_done_alone_is_refused(plan, option):
    name = option.partition("=")[0]
    with pytest.raises(CommandError, match=f"{name} goes with --until-done"):
        call("experiment", str(plan), option)
    assert not Run.objects.exists()
