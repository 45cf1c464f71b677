"""A bench is one judge's at a time, with cores of its own, and keeps its judge between verdicts."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.process.supervisor import Child, Ending, stopping
from runners.worker import bench
from runners.worker.bench import Bench, shares, taken
from tests.runners.house import ROOT, House

HOLDER = """
import sys, time
from runners.worker.bench import Bench
with Bench(lock=sys.argv[1]).held() as got:
    print(got, flush=True)
    time.sleep(float(sys.argv[2]))
"""
ECHO = (sys.executable, "-c", "import sys\nfor line in sys.stdin: print(line, flush=True)")


@pytest.fixture
def name(tmp_path: Path) -> str:
    """The lock of a GPU that no other machine, or test, has."""
    return f"GPU-{tmp_path}"


def holder(name: str, seconds: float) -> subprocess.Popen[str]:
    """Another process of this machine that holds the bench of this name."""
    command = [sys.executable, "-c", HOLDER, name, str(seconds)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "True\n"
    return process


def child() -> Child:
    return Child(ECHO, on_lines=lambda lines: None, stdin=None)


def test_a_bench_is_held_by_one_process_at_a_time(name: str) -> None:
    other = holder(name, 1000)
    with Bench(lock=name).held() as got:
        assert not got
    with Bench(lock=f"{name}-other").held() as got:
        assert got
    other.kill()  # however it ends
    other.wait()
    with Bench(lock=name).held() as got:
        assert got


def test_it_is_held_by_one_thread_at_a_time(name: str) -> None:
    benches, at_once, most = [Bench(lock=name), Bench(lock=f"{name}-2")], 0, 0
    counting = threading.Lock()

    def measure() -> None:
        nonlocal at_once, most
        with taken(benches) as got:
            assert got in benches
            with counting:
                at_once += 1
                most = max(most, at_once)
            time.sleep(0.1)
            with counting:
                at_once -= 1

    threads = [threading.Thread(target=measure) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2


def test_a_bench_is_waited_for(name: str) -> None:
    other = holder(name, 0.5)
    with taken([Bench(lock=name)]) as got:
        assert got is not None
        assert other.wait() == 0


def test_who_waits_for_a_bench_stops_when_told_to(name: str) -> None:
    other = holder(name, 1000)
    threading.Timer(0.3, stopping.set).start()
    try:
        with taken([Bench(lock=name)]) as got:
            assert got is None
    finally:
        stopping.clear()
        other.kill()
        other.wait()


def test_what_is_started_meanwhile_runs_on_the_cores_of_the_bench(name: str) -> None:
    before = os.sched_getaffinity(0)
    chosen = frozenset({max(before)})
    with Bench(lock=name, cores=chosen).held():
        asked = [sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"]
        said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert {int(core) for core in said.split()} == chosen
    assert os.sched_getaffinity(0) == before


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two packages of four cores with two threads each, numbered as Linux does: 0 and 8 are one."""
    for core in range(16):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{core % 8 // 4}\n")
        (folder / "thread_siblings_list").write_text(f"{core % 8},{core % 8 + 8}\n")
    monkeypatch.setattr(bench, "TOPOLOGY", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))


@pytest.mark.usefixtures("machine")
def test_gpus_share_no_core_and_no_thread_of_one() -> None:
    assert shares(2) == [
        frozenset({*range(4), *range(8, 12)}),
        frozenset({*range(4, 8), *range(12, 16)}),
    ]
    assert shares(4)[1] == frozenset({2, 3, 10, 11})
    assert shares(1) == [frozenset(range(16))]
    assert shares(0) == []


@pytest.mark.usefixtures("machine")
def test_where_cores_are_few_all_gpus_have_all() -> None:
    assert shares(16) == [frozenset(range(16))] * 16


def ask(judge: Child, line: str) -> list[str]:
    """Return the answer of a judge that stays."""
    answer: list[str] = []
    judge.on_lines = answer.extend
    judge.ask(line)
    ended = judge.follow(deadline=lambda: time.monotonic() + 60, answered=lambda: bool(answer))
    assert ended.ending is Ending.ANSWERED
    return answer


def test_a_judge_waits_for_its_next_turn() -> None:
    own, judge = Bench(), child()
    assert own.judge() is None
    assert ask(judge, "one") == ["one"]
    own.keep(judge)
    assert own.judge() is judge
    assert own.judge() is None, "it is taken"
    assert ask(judge, "two") == ["two"]
    judge.end()


def test_a_judge_that_died_while_it_waited_has_no_turn() -> None:
    own, judge = Bench(), child()
    own.keep(judge)
    judge.end()
    assert own.judge() is None


def test_a_judge_ends_after_so_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "TURNS", 2)
    own, judge = Bench(), child()
    own.keep(judge)
    assert own.judge() is judge and judge.alive
    own.keep(judge)
    assert own.judge() is None and not judge.alive


def test_no_judge_waits_on_a_bench_that_is_cleared() -> None:
    own, judge = Bench(), child()
    own.keep(judge)
    own.clear()
    assert not judge.alive
    own.clear()  # twice is as good as once


@pytest.fixture
def house_with_gpus(house: House) -> Iterator[House]:
    """The house while it has two GPUs, `a` and `b`."""
    house.kill("hardware")
    house.lay_gpus("a", "b")
    house.start_worker("hardware")
    yield house
    if "hardware" in house.processes:
        house.kill("hardware")
    (house.home / "judge" / "devices.json").unlink()


def test_a_worker_measures_on_every_gpu_and_is_listed_for_each(
    house_with_gpus: House,
) -> None:
    house = house_with_gpus
    names = "SELECT w.name FROM catalog_worker w JOIN catalog_hardware h ON h.id = w.hardware_id"
    house.wait_until(lambda: len(house.rows(f"{names} WHERE h.slug = 'fake-gpu'")) == 2, 30)
    steps = [{"write": "k.cu", "text": "takes 1 s, speedup 1.5"}, {"check": ""}]
    task = {"task": "k/cuda-to-cuda", "hardware": "fake-gpu"}
    runs = [house.run(steps, **task) for _ in range(2)]
    ended = [house.ended(run, 60) for run in runs]
    assert [row["status"] for row in ended] == ["passed"] * 2, [row["reason"] for row in ended]
    measured = [turn for turn in house.turns("measure") if turn.gpu in ("a", "b")]
    assert {turn.gpu for turn in measured} == {"a", "b"}
    assert any(one.meets(other) for one in measured for other in measured if one.gpu != other.gpu)
    listed = [row["name"] for row in house.rows(f"{names} WHERE h.slug = 'fake-gpu'")]
    assert sorted(name.rpartition("hw.fake-gpu/")[2][0] for name in listed) == ["a", "b"]
    house.stop("hardware")
    assert house.rows(f"{names} WHERE h.slug = 'fake-gpu'") == []
