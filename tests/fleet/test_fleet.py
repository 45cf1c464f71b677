"""A fleet under chaos: nothing is lost, doubled, or broken by a machine's fault."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from arena.accounts.backends import MAX_ATTEMPTS
from tests.conftest import skip_or_fail
from tests.fleet import model
from tests.fleet.machines import BUILD, HARDWARE, Fleet, Machine, obstacle
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """Return a fleet with a reaping machine, one that builds, and two that measure."""
    if problem := obstacle():
        skip_or_fail(problem)
    folder = Path(tempfile.mkdtemp(prefix="arena-fleet-"))
    made = Fleet(folder)
    try:
        made.open()
        agents = made.machine("reaper")
        agents.serve_model()
        agents.start("--queues", "agents", TEST_PROVIDER_KEY=model.KEY)
        made.machine("builder", BUILD).start("--queues", BUILD)
        for name in ("d1", "d2"):
            made.machine(name, HARDWARE).start("--hardware", "--grace", "60")
        for name in made.machines:
            made.worker(name)
        yield made
    finally:
        made.close()
        shutil.rmtree(folder)


def judged_by(fleet: Fleet, *runs: str) -> set[str]:
    """Return the machines that measured, once every run has passed without an attempt lost."""
    rows = fleet.ended(*runs)
    assert [row["run_status"] for row in rows] == ["passed"] * len(runs), fleet.logs()
    return {row["lease"].split(":")[0] for row in rows}


def held_by(fleet: Fleet, run: str) -> Machine:
    """Return the machine that measures a kernel, once one does."""

    def holder() -> str:
        row = fleet.verdict(run)
        return row["lease"].split(":")[0] if row["status"] == "measuring" else ""

    return fleet.machines[until(holder, fleet.logs)]


def let_judges_go(fleet: Fleet, *machines: str) -> None:
    """Create the file for which a judge waits, on these machines."""
    for name in machines:
        go = fleet.machines[name].home / "judge" / "go"
        go.parent.mkdir(parents=True, exist_ok=True)
        go.touch()


@pytest.fixture
def waiting(fleet: Fleet) -> Iterator[None]:
    """Let judges wait for a test, and forget afterwards that they may go on."""
    yield
    for name in ("d1", "d2"):
        (fleet.machines[name].home / "judge" / "go").unlink(missing_ok=True)


def test_kernels_are_judged_once_by_machines_with_credentials_of_their_own(fleet):
    runs = [fleet.submit() for _ in range(4)]
    assert judged_by(fleet, *runs) <= {"d1", "d2"}
    assert [fleet.verdict(run)["attempts"] for run in runs] == [1] * 4


ODD = {
    "ahead": ({"ODD_CLOCK": "35"}, "Its clock is 35 s ahead of the database's"),
    "behind": ({"ODD_CLOCK": "-40"}, "Its clock is 40 s behind the database's"),
    "older": ({"ODD_JUDGE": "5"}, "Its judge is version 5"),
    "full": ({}, " MiB are free in "),
}


def test_unfit_machines_show_a_reason_and_take_and_break_nothing(fleet):
    for name, (odd, _) in ODD.items():
        machine = fleet.machine(name, HARDWARE)
        if name == "full":
            machine.small_disk(megabytes=8)
        machine.start("--hardware", **odd)
    for name, (_, problem) in ODD.items():
        assert problem in fleet.worker(name)["problem"], fleet.logs()
    runs = [fleet.submit() for _ in range(3)]
    assert judged_by(fleet, *runs) <= {"d1", "d2"}
    assert [fleet.verdict(run)["interruptions"] for run in runs] == [0] * 3
    for name in ODD:
        fleet.machines[name].close()


def test_machine_whose_link_is_cut_loses_its_work_to_another(fleet, waiting):
    run = fleet.submit("waits, speedup 1.5")
    lost = held_by(fleet, run)
    other = {"d1": "d2", "d2": "d1"}[lost.name]
    lost.cut()
    try:
        let_judges_go(fleet, other, lost.name)
        fleet.expire()
        assert judged_by(fleet, run) == {other}
        assert fleet.verdict(run)["interruptions"] == 1
    finally:
        lost.cut(is_cut=False)
    later = fleet.submit()
    assert judged_by(fleet, later)
    assert fleet.verdict(run)["lease"].startswith(other), "the late one replaced a verdict"


def test_machine_that_is_killed_loses_its_work_to_another(fleet, waiting):
    run = fleet.submit("waits, speedup 1.5")
    lost = held_by(fleet, run)
    other = {"d1": "d2", "d2": "d1"}[lost.name]
    lost.send(signal.SIGKILL)
    lost.wait()
    let_judges_go(fleet, other)
    fleet.expire()
    assert judged_by(fleet, run) == {other}
    lost.start("--hardware", "--grace", "60")


def test_machine_that_is_terminated_finishes_what_it_measures(fleet, waiting):
    run = fleet.submit("waits, speedup 1.5")
    ending = held_by(fleet, run)
    ending.send(signal.SIGTERM)
    until(lambda: "It ends" in fleet.worker(ending.name)["problem"], fleet.logs)
    let_judges_go(fleet, ending.name)
    assert judged_by(fleet, run) == {ending.name}
    assert fleet.verdict(run)["interruptions"] == 0
    assert ending.wait() == 0
    ending.start("--hardware", "--grace", "60")


def test_agent_is_judged_by_machines_of_other_roles(fleet):
    steps = [{"write": "k.cpp", "text": "speedup 1.5"}, {"check": "one"}]
    run = fleet.run_agent("scripted-one", adapter="scripted", settings={"steps": steps})
    row = fleet.run_ended(run)
    assert (row["status"], row["rounds"]) == ("passed", 1), fleet.logs()
    judged = fleet.evaluations(run)
    assert [row["scope"] for row in judged] == ["round", "final"]
    assert {row["lease"].split(":")[0] for row in judged} <= {"d1", "d2"}


PUBLISHED = """
from arena.catalog.models import TaskVersion
from arena.catalog.sync import publish_folder
from arena.curation.starter import starter_draft
publish_folder("curated", starter_draft("curated", "Curated"), "c" * 64)
TaskVersion.objects.update(content_hash="0")
"""
IMPORTED = """
from pathlib import Path
from arena.catalog.models import Task, TaskVersion
from arena.catalog.sync import sync_tasks
from arena.catalog.task_folders import write_files
from arena.curation.starter import starter_draft
home = Path({home!r})
(home / "none").mkdir()
write_files(home / "imported/suite/imported", starter_draft("imported", "Imported"))
report = sync_tasks(home / "none", home / "imported")
assert len(report.added) == 3, report
Task.objects.update(in_tree=True)
TaskVersion.objects.update(content_hash="0")
"""


@pytest.mark.parametrize(("name", "program"), [("curated", PUBLISHED), ("imported", IMPORTED)])
def test_task_that_is_on_one_machine_is_judged_by_all(fleet, name, program):
    fleet.python(program.replace("{home!r}", repr(str(fleet.folder / "arena"))))
    run = fleet.submit("reads its task, speedup 1.5", f"{name}/cpp-to-cpp")
    (machine,) = judged_by(fleet, run)
    assert list(fleet.machines[machine].home.glob(f"tasks/*/{name}/task.toml"))
    assert list(fleet.machines["builder"].home.glob(f"tasks/*/{name}/task.toml"))


CONTINUE = """
from arena.runs.models import Run
from arena.runs.services import continue_run
print(continue_run(Run.objects.get(pk={run!r}), None).pk)
"""


def test_run_that_goes_on_elsewhere_pays_no_answer_of_its_model_again(fleet, waiting):
    agent = {"adapter": "model_loop", "model": model.NAME, "provider": "scripted"}
    run = fleet.run_agent("patient", **agent)
    until(lambda: fleet.evaluations(run), fleet.logs)
    held_by(fleet, run)
    until(lambda: fleet.rows("SELECT 1 FROM runs_trafficpart WHERE run_id = %s", run), fleet.logs)
    lost = fleet.machines["reaper"]
    lost.send(signal.SIGKILL)
    lost.wait()
    other = fleet.machine("second-agents")
    other.serve_model()
    other.start("--queues", "agents", TEST_PROVIDER_KEY=model.KEY)
    fleet.expire("runs_run")
    let_judges_go(fleet, "d1", "d2")
    assert fleet.run_ended(run)["status"] == "broken"
    again = fleet.python(CONTINUE.format(run=run))
    assert fleet.run_ended(again)["status"] == "passed", fleet.logs()
    query = "SELECT body FROM runs_event WHERE run_id = %s AND kind = 'model_call' ORDER BY seq"
    calls = [row["body"]["replayed"] for row in fleet.rows(query, again)]
    assert calls[0] and calls == sorted(calls, reverse=True), calls
    other.close()
    lost.start("--queues", "agents", TEST_PROVIDER_KEY=model.KEY)


def test_database_that_is_killed_costs_no_attempt(fleet, waiting):
    run = fleet.submit("waits, speedup 1.5")
    held_by(fleet, run)
    fleet.kill_postgres()
    fleet.restart_postgres()
    let_judges_go(fleet, "d1", "d2")
    fleet.expire()
    assert judged_by(fleet, run) <= {"d1", "d2"}
    row = fleet.verdict(run)
    assert row["attempts"] - row["interruptions"] == 1


def test_queue_that_is_killed_loses_no_kernel(fleet, waiting):
    held = fleet.submit("waits, speedup 1.5")
    held_by(fleet, held)
    queued = fleet.submit()
    fleet.kill_valkey()
    let_judges_go(fleet, "d1", "d2")
    fleet.restart_valkey()
    assert judged_by(fleet, held, queued) <= {"d1", "d2"}
    assert [fleet.verdict(run)["attempts"] for run in (held, queued)] == [1, 1]


def test_two_web_servers_share_sessions_and_the_limit_of_logins(fleet):
    one, two = (fleet.web(port) for port in (8001, 8002))
    seen = fleet.visit(f"{one}/login/", f"{two}/account/", "owner", "long enough 1")
    assert json.loads(seen.stdout)["codes"] == [200, 200] and "owner" in seen.stdout, seen.stderr
    guesses = ["a guess"] * (MAX_ATTEMPTS + 1)
    refused = fleet.visit(f"{one}/login/,{two}/login/", f"{two}/", "nobody", *guesses)
    texts = json.loads(refused.stdout)["texts"]
    tries = ["Too many attempts" in text for text in texts[: MAX_ATTEMPTS + 1]]
    assert tries == [False] * MAX_ATTEMPTS + [True]
