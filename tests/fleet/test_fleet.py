"""A fleet under chaos: nothing is lost, doubled, or broken by a machine's fault."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import skip_or_fail
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
        made.machine("reaper").start("--queues", "agents")
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
