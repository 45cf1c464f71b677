"""A queue judges each request once, whatever becomes of the processes that judge."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from evaluation.bench.devices import cores
from evaluation.bench.devices.device import Device
from evaluation.judge import verdict_queue
from evaluation.judge.verdict_queue import JudgeProcess, Spare, VerdictQueue
from evaluation.sandbox import procfs

JUDGE = """
import json, os, sys, time
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    request = json.loads(line)["name"]
    if request == "dies":
        os._exit(9)
    if request == "hangs":
        sys.stdin.read()
    verdict = "broken" if request == "breaks" else "passed"
    print(json.dumps({"verdict": verdict, "of": request, "by": os.getpid()}), flush=True)
"""
DEADLINE_SECONDS = 60.0


class Recorded:
    """Results by request, and how many there were."""

    def __init__(self) -> None:
        self.results: dict[str, dict[str, Any]] = {}
        self.count = 0
        self._lock = threading.Lock()

    def add(self, request: str, result: dict[str, Any]) -> None:
        with self._lock:
            self.results[request] = result
            self.count += 1


def gpu(uuid: str) -> Device:
    names = dict.fromkeys(("slug", "kind", "vendor", "name", "arch", "queue"), "gpu")
    numbers = dict.fromkeys(("cores", "threads", "memory_bytes", "last_level_cache_bytes"), 1)
    return Device(**names, **numbers, levels=(), peaks={}, isolation={}, fingerprint={"uuid": uuid})


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Device:
    monkeypatch.setattr("evaluation.bench.devices.locks.LOCKS", tmp_path)
    return gpu("GPU-0")


def queue(
    devices: list[Device], recorded: Recorded, build: Callable[[str], Any], seconds: float = 60.0
) -> VerdictQueue[str]:
    return VerdictQueue(
        devices,
        (sys.executable, "-c", JUDGE),
        encode=lambda name: {"name": name},
        build=build,
        record=recorded.add,
        lost=lambda message, late: {"lost": message, "late": late},
        limit_seconds=seconds,
    )


def test_every_request_is_recorded_once_though_processes_end(device: Device) -> None:
    recorded = Recorded()
    names = ["a", "dies", "b", "breaks", "c", "d"]

    queue([device, gpu("GPU-1")], recorded, lambda name: None).run(names)

    assert recorded.count == len(names) and recorded.results.keys() == set(names)
    assert "code 9" in recorded.results["dies"]["lost"] and not recorded.results["dies"]["late"]
    assert recorded.results["breaks"]["verdict"] == "broken"
    assert {recorded.results[name]["verdict"] for name in "abcd"} == {"passed"}


def test_verdict_over_the_time_limit_is_recorded_and_the_next_one_judged(device: Device) -> None:
    recorded = Recorded()

    queue([device], recorded, lambda name: None, seconds=2.0).run(["hangs", "a"])

    assert recorded.results["hangs"] == {"lost": "over the time limit of 2 s", "late": True}
    assert recorded.results["a"]["verdict"] == "passed"


def test_successor_of_a_late_process_starts_before_the_time_is_over(device: Device) -> None:
    recorded, children = Recorded(), set[int]()
    run = queue([device], recorded, lambda name: None, seconds=8.0)  # two of them for the start
    lost = run.lost

    def note(message: str, late: bool) -> dict[str, Any]:
        children.update(judges())
        return lost(message, late)

    run.lost = note

    run.run(["hangs", "a"])

    assert len(children) == 2 and recorded.results["a"]["by"] in children
    assert not judges(), "all are ended"


def test_successor_that_cannot_start_early_is_started_when_it_is_needed() -> None:
    process = cast(JudgeProcess, object())
    started = iter([OSError("no memory"), process])

    def start() -> JudgeProcess:
        if isinstance(found := next(started), OSError):
            raise found
        return found

    spare = Spare(start)
    spare.start()
    assert spare.taken() is process


def judges() -> set[int]:
    """Return the pids of the processes that judge here."""
    found = set()
    for pid in procfs.descendants(os.getpid()):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            if JUDGE in Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
                found.add(pid)
    return found


def test_result_of_a_build_needs_no_device(device: Device) -> None:
    recorded = Recorded()

    queue([device], recorded, lambda name: {"refused": name} if name == "bad" else None).run(
        ["bad", "good"]
    )

    assert recorded.results["bad"] == {"refused": "bad"}
    assert recorded.results["good"]["of"] == "good"


def test_request_that_is_built_is_judged_while_an_earlier_one_builds(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_queue, "CORES_OF_BUILD", 0.5)  # two builds, whatever the cores
    recorded, judged_first = Recorded(), threading.Event()

    def build(name: str) -> None:
        if name == "slow":
            assert judged_first.wait(DEADLINE_SECONDS), "the other one was not judged"

    run = queue([device], recorded, build)
    record = run.record

    def note(name: str, result: dict[str, Any]) -> None:
        record(name, result)
        judged_first.set()

    run.record = note

    run.run(["slow", "quick"])

    assert list(recorded.results) == ["quick", "slow"]


def test_requests_about_one_subject_follow_each_other_within_few_places(device: Device) -> None:
    recorded, all_built = Recorded(), threading.Event()
    names = ["a1", "b1", "a2", *(f"c{n}" for n in range(verdict_queue.NEAR)), "a3", "b2"]
    run = queue([device], recorded, lambda name: None)
    run.compiles = lambda name: False  # one thread builds, in order
    run.subject = lambda name: name[0]
    encode = run.encode
    run.build = lambda name: all_built.set() if name == names[-1] else None

    def encoded(name: str) -> Mapping[str, Any]:
        assert all_built.wait(DEADLINE_SECONDS)
        return encode(name)

    run.encode = encoded

    run.run(names)

    judged = list(recorded.results)
    assert sorted(judged) == sorted(names)
    assert judged[:3] == ["a1", "a2", "b1"], "a3 is too far away"
    assert judged.index("a3") > judged.index("c0")


def test_device_whose_processes_never_start_is_given_up(
    device: Device, capfd: pytest.CaptureFixture[str]
) -> None:
    recorded = Recorded()
    run = queue([device], recorded, lambda name: None)
    run.command = (sys.executable, "-c", "")

    run.run(["a"])

    assert recorded.count == 0
    assert "no process that judges starts" in capfd.readouterr().err


def test_judges_and_builds_have_cores_of_their_own(tmp_path: Path) -> None:
    threads = cores.Threads(frozenset(range(64)), tmp_path)  # no topology: a core each

    judges, builds = cores.shares_beside_builds(4, threads)

    assert [len(each) for each in judges] == [6] * 4 and len(builds) == 40
    assert len(builds.union(*judges)) == 64
    few = cores.Threads(frozenset(range(2)), tmp_path)
    assert cores.shares_beside_builds(1, few) == ([few.numbers], few.numbers)


def test_queue_that_is_over_records_nothing(device: Device) -> None:
    recorded = Recorded()
    run = queue([device], recorded, lambda name: None)
    run.end = 0.0

    run.run(["a"])

    assert recorded.count == 0
