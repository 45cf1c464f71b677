"""A bench is one judge's at a time, with cores of its own, and keeps its judge between verdicts."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from evaluation.bench.devices.cores import Threads, shares
from runners.process.supervisor import Child, Ended, Ending, stopping
from runners.worker.bench import Bench, OnLines, taken
from tests.runners.house import ROOT, House
from tests.waiting import PATIENCE_SECONDS

HOLDER = """
import sys
from runners.worker.bench import Bench
with Bench(lock=sys.argv[1]).held() as got:
    print(got, flush=True)
    sys.stdin.read()
"""
JUDGE = (
    sys.executable,
    "-c",
    """
import json, os, sys
print(json.dumps({"type": "ready"}), flush=True)
for line in sys.stdin:
    if line == "die\\n":
        sys.exit(9)
    print(json.dumps({"type": "report", "of": line.strip(), "gpu": os.environ["GPU"]}))
    print(json.dumps({"type": "end", "code": int(line)}), flush=True)
""",
)


@pytest.fixture
def name(tmp_path: Path) -> str:
    """The lock of a GPU that no other machine, or test, has."""
    return f"GPU-{tmp_path}"


def holder(name: str) -> subprocess.Popen[str]:
    """Another process of this machine that holds the bench of this name while its stdin is open."""
    command = [sys.executable, "-c", HOLDER, name]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)
    assert process.stdout and process.stdout.readline() == "True\n"
    return process


def test_a_bench_is_held_by_one_process_at_a_time(name: str) -> None:
    other = holder(name)
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
    counting, both = threading.Lock(), threading.Barrier(2)

    def measure() -> None:
        nonlocal at_once, most
        with taken(benches) as got:
            assert got in benches
            with counting:
                at_once += 1
                most = max(most, at_once)
            both.wait(PATIENCE_SECONDS)
            with counting:
                at_once -= 1

    threads = [threading.Thread(target=measure) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2


def test_a_bench_is_waited_for(name: str) -> None:
    other, polls = holder(name), iter([False, False, True])

    def release(seconds: float) -> None:
        if next(polls):
            other.communicate()

    with taken([Bench(lock=name)], pause=release) as got:
        assert got is not None
        assert other.poll() == 0


def test_who_waits_for_a_bench_stops_when_told_to(name: str) -> None:
    other = holder(name)
    try:
        with taken([Bench(lock=name)], pause=lambda seconds: stopping.set()) as got:
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
def two_packages(tmp_path: Path) -> Threads:
    """Two packages of four cores with two threads each, numbered as Linux does: 0 and 8 are one."""
    for core in range(16):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{core % 8 // 4}\n")
        (folder / "thread_siblings_list").write_text(f"{core % 8},{core % 8 + 8}\n")
    return Threads(frozenset(range(16)), tmp_path)


def test_gpus_share_no_core_and_no_thread_of_one(two_packages: Threads) -> None:
    assert shares(2, two_packages) == [
        frozenset({*range(4), *range(8, 12)}),
        frozenset({*range(4, 8), *range(12, 16)}),
    ]
    assert shares(4, two_packages)[1] == frozenset({2, 3, 10, 11})
    assert shares(1, two_packages) == [frozenset(range(16))]
    assert shares(0, two_packages) == []


def test_where_cores_are_few_all_gpus_have_all(two_packages: Threads) -> None:
    assert shares(16, two_packages) == [frozenset(range(16))] * 16


class Asked:
    """A bench with judges that answer a number with it as exit code, and `die` not at all."""

    def __init__(self, **fields: Any) -> None:
        self.bench = Bench(environment={"GPU": "one"}, **fields)
        self.judges: list[Child] = []

    def start(self, added: Mapping[str, str], on_lines: OnLines) -> Child:
        self.judges.append(Child(JUDGE, on_lines=on_lines, stdin=None, env={**added}))
        return self.judges[-1]

    def answer(self, request: str) -> tuple[Ended, list[dict[str, Any]]]:
        messages: list[dict[str, Any]] = []
        ended = self.bench.answer(request, self.start, messages.append, deadline=math.inf)
        return ended, messages


@pytest.fixture
def asked() -> Iterator[Asked]:
    own = Asked()
    yield own
    own.bench.clear()


def test_a_judge_stays_for_the_next_request(asked: Asked) -> None:
    for request in ("0", "1"):
        ended, messages = asked.answer(request)
        assert (ended.ending, ended.code) == (Ending.EXITED, int(request))
        assert messages == [{"type": "report", "of": request, "gpu": "one"}]
    assert len(asked.judges) == 1 and asked.judges[0].alive


def test_a_judge_that_ends_without_an_answer_is_replaced(asked: Asked) -> None:
    asked.answer("0")
    ended, messages = asked.answer("die")
    assert (ended.ending, ended.code, messages) == (Ending.EXITED, 9, [])
    assert asked.answer("0")[0].code == 0 and len(asked.judges) == 2


def test_a_judge_that_died_while_it_waited_is_replaced(asked: Asked) -> None:
    asked.answer("0")
    asked.judges[0].end()
    assert asked.answer("1")[0].code == 1 and len(asked.judges) == 2


def test_a_judge_ends_after_so_many_turns(asked: Asked) -> None:
    asked.bench.max_turns = 2
    for request in "012":
        asked.answer(request)
    assert [judge.alive for judge in asked.judges] == [False, True]


def test_no_judge_waits_on_a_bench_that_is_cleared(asked: Asked) -> None:
    asked.answer("0")
    asked.bench.clear()
    assert not asked.judges[0].alive
    asked.bench.clear()  # twice is as good as once


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
    steps = [{"write": "k.cu", "text": "meets another, speedup 1.5"}, {"check": ""}]
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
