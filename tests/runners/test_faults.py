"""Killed at any moment and started again: no event lost or twice, and nothing runs for ever."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.runners.house import TARGET, House
from tests.runners.worker.test_attempt import evaluations

MAX_SEQ = 2**31 - 1
ROUND = [{"write": TARGET, "text": "speedup 1.5"}, {"check": "at once"}]
LONG_ROUND = [{"write": TARGET, "text": "speedup 1.5 waits"}, {"check": "later"}]


def is_at(house: House, run: str, status: str) -> bool:
    return status in evaluations(house, run)


def assert_whole(house: House, run: str) -> None:
    """Events numbered without a gap, each line of each producer once, and nothing left at work."""
    events = house.events(run)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert house.row(run)["last_seq"] == len(events)
    sent = Counter(
        (e["producer"], e["producer_seq"]) for e in events if e["producer_seq"] is not None
    )
    assert set(sent.values()) <= {1}
    assert sum(e["body"]["state"] in ("passed", "broken") for e in house.events(run, "status")) == 1
    assert set(evaluations(house, run)) <= {"done", "broken"}


def processes_in(folder: Path) -> list[psutil.Process]:
    """Live processes that were started with this home."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and str(folder) in " ".join(process.cmdline()):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def test_a_killed_agents_worker_leaves_a_broken_run_and_no_agent(house: House) -> None:
    run = house.run([*ROUND, {"run": "sleep 1000"}])
    house.wait_until(lambda: len(house.events(run, "tool_call")) == 2, 30)
    workspace = house.home / "workspaces" / run
    assert processes_in(workspace)
    house.kill("agents")
    house.wait_until(lambda: not processes_in(workspace))
    house.expire()
    house.start_worker("agents")
    row = house.ended(run)
    assert (row["status"], row["fault"]) == ("broken", "arena")
    assert row["reason"] == "Its worker stopped answering."
    assert_whole(house, run)
    house.wait_until(lambda: not workspace.exists(), 30)
    again = house.continuation(run)
    house.wait_until(lambda: len(house.events(again, "tool_call")) == 2, 30)


@pytest.mark.parametrize(("role", "status"), [("build", "queued"), ("hardware", "measuring")])
def test_a_killed_judge_is_replaced_and_the_run_passes(
    house: House, role: str, status: str
) -> None:
    if role == "build":
        registered = "SELECT 1 FROM catalog_worker WHERE queues LIKE '%build%'"
        house.wait_until(lambda: bool(house.rows(registered)), 30)  # else no run would start
        house.kill(role)
    run = house.run(LONG_ROUND)
    with house.judge_waits() as go:
        house.wait_until(lambda: is_at(house, run, status), 30)
        if role != "build":
            house.kill(role)
            house.expire("runs_evaluation")
        go.touch()
        house.start_worker(role)
        row = house.ended(run)
    assert (row["status"], row["speedup"], row["rounds"]) == ("passed", 1.5, 1)
    assert_whole(house, run)


def test_run_that_a_busy_database_ends_is_continued(house: House) -> None:
    def execute(statement: str) -> None:
        with closing(house.database()) as database, database:
            database.execute(statement)

    refuses = "BEFORE INSERT ON runs_submission BEGIN SELECT no_such_function(); END"
    execute(f"CREATE TRIGGER refuses {refuses}")
    try:
        run = house.run(ROUND)
        row = house.ended(run)
        assert (row["status"], row["fault"]) == ("broken", "arena")
        assert row["reason"] == "OperationalError: no such function: no_such_function"
        assert house.continuation(run)
    finally:
        execute("DROP TRIGGER refuses")
    house.cancel_all()


def test_workers_told_to_stop_give_back_what_they_hold_at_once(house: House) -> None:
    working = house.run([{"run": "sleep 1000"}])
    house.wait_until(lambda: bool(house.events(working, "tool_call")), 30)
    judged = house.run([{"write": TARGET, "text": "hangs"}, {"check": ""}])
    house.wait_until(lambda: is_at(house, judged, "measuring"), 30)
    house.stop("hardware")
    assert not is_at(house, judged, "measuring")
    house.stop("agents")
    assert house.row(working)["reason"] == "Its worker was stopped."
    assert house.row(judged)["status"] == "broken"
    for run in (judged, working):
        assert_whole(house, run)


def test_a_killed_queue_costs_nothing_even_without_its_memory(house: House) -> None:
    run = house.run(LONG_ROUND)
    waiting = house.run([{"say": "I was in the queue."}, *ROUND])
    with house.judge_waits() as go:
        house.wait_until(lambda: is_at(house, run, "measuring"), 30)
        house.kill("valkey")
        shutil.rmtree(house.home / "valkey")
        go.touch()
        house.wait_until(lambda: not is_at(house, run, "measuring"), 30)
        house.start_valkey()
        for each in (run, waiting):
            assert house.ended(each, 45)["status"] == "passed"
            assert_whole(house, each)


def test_everything_killed_at_once_is_picked_up_by_the_next_start(house: House) -> None:
    run = house.run(LONG_ROUND)
    with house.judge_waits() as go:
        house.wait_until(lambda: is_at(house, run, "measuring"), 30)
        for name in list(house.processes):
            house.kill(name)
        house.expire()
        house.expire("runs_evaluation")
        left = house.events(run)
        go.touch()
        house.open()
        assert house.ended(run)["status"] == "broken"
        assert house.events(run)[: len(left)] == left
        assert_whole(house, run)
        assert house.ended(house.continuation(run))["status"] == "passed"


def test_a_page_that_follows_loses_nothing_when_the_web_server_is_killed(house: House) -> None:
    address = house.start_web()
    run = house.run([{"say": "one"}, *ROUND, {"say": "two"}])
    shown: set[int] = set()
    cursor = 0

    def follow(kill_after: int = MAX_SEQ) -> None:
        """Take rows as a page does, a gap by GET, up to the end or until the line breaks."""
        nonlocal cursor
        with connect(f"ws://{address}/ws/runs/{run}/", origin=f"http://{address}") as line:
            while True:
                frame = json.loads(line.recv(timeout=60))
                html, reached = frame["html"], frame["cursor"]
                if frame["after"] > cursor:
                    with urlopen(f"http://{address}/runs/{run}/events/?after={cursor}") as answer:
                        html, reached = answer.read().decode(), answer.headers["X-Arena-Cursor"]
                shown.update(map(int, re.findall(r'id="e(\d+)"', html)))
                cursor = max(cursor, int(reached))
                if frame["ended"] and cursor >= frame["cursor"]:
                    return
                if cursor > kill_after and "web" in house.processes:
                    house.kill("web")

    with pytest.raises(ConnectionClosed):
        follow(kill_after=6)
    assert house.row(run)["status"] == "running"
    address = house.start_web()
    follow()
    events = house.events(run)
    calls = {event["event_id"] for event in events if event["kind"] == "tool_call"}
    firsts: dict[str, int] = {}  # a revision is shown in the row of its first
    for event in events:
        name = f"#{event['seq']}" if event["kind"] == "status" else event["event_id"]
        firsts.setdefault(name, event["seq"])
    results = {e["seq"] for e in events if e["body"].get("call") in calls}
    speedups = {
        e["seq"] for e in events if e["kind"] == "metric" and e["body"]["name"] == "speedup"
    }  # in the row that ends its evaluation
    assert cursor == len(events)
    assert shown == set(firsts.values()) - results - speedups
    assert_whole(house, run)
