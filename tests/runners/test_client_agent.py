"""`arena agent`: programs of this machine, against a web server and a stand-in judge."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from arena.runs.trace.agent_events import agent_event
from arena_client import OwnRun
from arena_client.agent import Agent, Program
from arena_client.cursor import CursorEvents
from arena_client.types import EventIn, ProgressOut, RewardOut, RunOut
from tests.runners.house import ROOT, House
from tests.runners.test_client import TASK, TOKEN
from tests.waiting import until

STREAM = Path(__file__).with_name("recordings") / "cursor_agent-documented.jsonl"
"""Written from the documentation: the program needs an account."""
CURSOR = f"""#!{sys.executable}
import json, os, pathlib, subprocess, sys

assert sys.argv[1:5] == ["-p", "--output-format", "stream-json", "--force"], sys.argv
assert sys.argv[5:7] == ["--model", "m-1"] and "TASK.md" in sys.argv[-1], sys.argv
assert "ARENA_TOKEN" not in os.environ
assert pathlib.Path("TASK.md").read_text() == "Make it faster."
for line in pathlib.Path({str(STREAM)!r}).read_text().splitlines():
    record = json.loads(line)
    call = record.get("tool_call", {{}}).get("shellToolCall")
    if call and record["subtype"] == "completed":
        pathlib.Path("k.cpp").write_text("speedup 2.0")
        asked = subprocess.run(["./arena-check", "twice"], capture_output=True, text=True)
        call["result"]["success"] |= {{"exitCode": asked.returncode, "stdout": asked.stdout}}
    print(json.dumps(record), flush=True)
"""
SPENDS = """
import pathlib, subprocess, time
for source in ("busy at once", "speedup 1.5", "speedup 3.0"):
    pathlib.Path("k.cpp").write_text(source)
    asked = subprocess.run(["./arena-check"], capture_output=True, text=True)
    print(asked.returncode, asked.stdout)
print('{"kind": "message", "body": {"role": "assistant", "text": "Enough."}}')
print('{"kind": "status", "body": {}}', flush=True)
raise SystemExit(4)
"""
WAITS = """
import pathlib, subprocess, time
pathlib.Path("k.cpp").write_text("speedup 2.0")
subprocess.run(["./arena-check"])
pathlib.Path("ready").touch()
time.sleep(600)
"""


@pytest.fixture
def command(house: House, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start `arena agent`, with a folder of programs before the system's."""
    house.start_web()
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "cursor-agent"
    program.write_text(CURSOR)
    program.chmod(0o755)
    environment = {
        "ARENA_URL": f"http://127.0.0.1:{house.web_port}",
        "ARENA_TOKEN": house.python(TOKEN),
        "PATH": f"{program.parent}:{os.environ['PATH']}",
    }

    def start(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(ROOT / "scripts" / "arena"), "agent", *words],
            cwd=tmp_path, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            # A shell lets what it starts in the background ignore Ctrl-C, and tests with it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip

    return start


def ended(process: subprocess.Popen[str], code: int) -> tuple[str, str]:
    printed, errors = process.communicate(timeout=200)
    assert process.returncode == code, printed + errors
    return printed, errors


def run_of(printed: str) -> str:
    return printed.splitlines()[0].rstrip("/").rpartition("/")[2]


def test_cursor_competes_with_its_stream_as_a_trace(
    house: House, command: Callable[..., Any], tmp_path: Path
) -> None:
    printed, _ = ended(command("cursor", TASK, "--model", "m-1", "--rounds", "3"), 0)
    run = run_of(printed)
    row = house.ended(run)
    assert (row["status"], row["rounds"]) == ("passed", 1)
    (agent,) = house.rows("SELECT a.slug, a.model FROM catalog_agent a JOIN runs_run r"
                          f" ON r.agent_id = a.id WHERE r.id = '{run}'")  # fmt: skip
    assert dict(agent) == {"slug": "newcomer-cursor", "model": "m-1"}
    messages = [event["body"] for event in house.events(run, "message")]
    assert [(each["text"], each["reasoning"]) for each in messages] == [
        ("I read.", "First the source."),
        ("It is done.", ""),
    ]
    calls = house.events(run, "tool_call")
    assert [call["body"]["tool"] for call in calls] == ["read", "write", "shell"]
    results = [event["body"] for event in house.events(run, "tool_result")]
    assert [result["call"] for result in results] == [call["event_id"] for call in calls]
    assert [(result["ok"], result["exit_code"]) for result in results] == [
        (True, None), (True, None), (True, 0),
    ]  # fmt: skip
    assert results[2]["output"].startswith("Round 1: passed")
    assert (tmp_path / "k-cpp-to-cpp" / "k.cpp").read_text() == "speedup 2.0"


def test_any_program_is_checked_and_shown_and_its_status_is_an_error(
    house: House, command: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "spends.py").write_text(SPENDS)
    words = ("--name", "Spender", "--rounds", "1", "--folder", "work")
    process = command(sys.executable, TASK, *words, "--", str(tmp_path / "spends.py"))
    printed, errors = ended(process, 0)
    run = run_of(printed)
    assert house.ended(run)["rounds"] == 2
    (failed,) = house.events(run, "error")
    assert failed["body"]["message"] == f"{sys.executable} ended with status 4."
    assert house.events(run, "message")[0]["body"]["text"] == "Enough."
    logged = "\n".join(event["body"]["text"] for event in house.events(run, "log"))
    assert "\n3 Round 1: inconclusive" in logged and "Submit it again: " in logged
    assert "\n0 Round 2: passed" in logged and "All 1 rounds are spent." in logged
    assert logged.count("Submit it again") == 1
    assert "1 events were refused" in errors  # an agent records no status


def test_program_that_is_interrupted_is_ended_and_its_best_round_is_judged(
    house: House, command: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    process = command(sys.executable, TASK, "--private", "--", str(tmp_path / "waits.py"))
    until((tmp_path / "k-cpp-to-cpp" / "ready").exists, "the first verdict", 100)
    process.send_signal(signal.SIGINT)
    printed, _ = ended(process, 0)
    assert house.ended(run_of(printed))["status"] == "passed"


def test_folder_with_files_and_unknown_program_are_refused(
    house: House, command: Callable[..., Any], tmp_path: Path
) -> None:
    runs = house.rows("SELECT id FROM runs_run")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").touch()
    _, errors = ended(command("cursor", TASK, "--folder", "full"), 2)
    assert "is not an empty folder; choose another --folder" in errors
    assert "there is no program none" in ended(command("none", TASK), 2)[1]
    assert house.rows("SELECT id FROM runs_run") == runs


ORDERED = """
import os, subprocess
print("before-one")
print("before-two")
subprocess.run(["./arena-check", "n"], stdout=subprocess.DEVNULL)
print("after")
os.write(1, b"without an end")
"""


class Recorded(OwnRun):
    """A run that keeps what it is sent, in order, and answers at once."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    def send(self, events: Sequence[EventIn] = ()) -> ProgressOut:
        self.kept += [str(event["body"]["text"]) for event in events]
        return cast(ProgressOut, {"status": "running"})

    def check(self, source: str, note: str = "", seconds: float = 600.0) -> RewardOut:
        self.kept.append(f"round of {source}")
        verdict = {"verdict": "passed", "status": "done", "seen": None, "reason": "", "round": 1}
        return cast(RewardOut, {**verdict, "message": "", "gates": [], "cases": []})

    def finish(self) -> RunOut:
        self.kept.append("finished")
        return cast(RunOut, {})


def test_output_before_a_check_is_sent_before_its_round(tmp_path: Path) -> None:
    (tmp_path / "ordered.py").write_text(ORDERED)
    (tmp_path / "work").mkdir()
    target = tmp_path / "work" / "k.cpp"
    target.write_text("a")
    run = Recorded()
    agent = Agent(run, Program("ordered", (sys.executable, str(tmp_path / "ordered.py"))), target)
    agent.work(1)
    agent.finish()
    assert run.kept == [
        "before-one", "before-two", "round of a", "after", "without an end", "finished",
    ]  # fmt: skip


def events_of(*records: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the events of records, each as an arena would record it."""
    translate = CursorEvents()
    found = [event for record in records for event in translate(record) or ()]
    return [
        {"kind": each.kind, **each.body}
        for number, event in enumerate(found, 1)
        for each in [agent_event(event, number)]
    ]


def called(kind: str, subtype: str = "completed", **detail: Any) -> dict[str, Any]:
    call = {kind: detail}
    return {"type": "tool_call", "subtype": subtype, "call_id": "one", "tool_call": call}


def test_failed_call_of_cursor_has_its_error() -> None:
    *_, result = events_of(
        called("readToolCall", args={}, result={"error": {"message": "no such file"}})
    )
    assert (result["ok"], result["output"]) == (False, "no such file")


def test_tool_without_a_kind_has_its_own_name() -> None:
    (call,) = events_of(called("function", "started", name="lookup", arguments='{"word": 1}'))
    assert (call["tool"], call["arguments"]) == ("lookup", {"arguments": '{"word": 1}'})


def test_plan_of_cursor_is_a_todo_list() -> None:
    todos = [{"content": "Read", "status": "TODO_STATUS_COMPLETED"}, {"content": "Write"}]
    *_, plan = events_of(
        called("updateTodosToolCall", args={"todos": todos}, result={"success": {}})
    )
    assert [item["status"] for item in plan["items"]] == ["completed", "pending"]


def test_command_without_a_code_has_no_outcome() -> None:
    *_, result = events_of(called("shellToolCall", args={}, result={"success": {"stdout": "a"}}))
    assert (result["ok"], result["output"]) == (None, "a")


def test_end_with_an_error_is_recorded_after_the_last_reasoning() -> None:
    events = events_of(
        {"type": "thinking", "subtype": "delta", "text": "Hm."},
        {"type": "result", "subtype": "error", "is_error": True, "result": "no credit"},
    )
    assert [(e["kind"], e.get("reasoning"), e.get("message")) for e in events] == [
        ("message", "Hm.", None),
        ("error", None, "Cursor gave up: no credit"),
    ]


def test_unknown_records_have_no_events() -> None:
    translate = CursorEvents()
    assert translate({"type": "from.the.future"}) is None
    assert translate(called("hologram")) is None


def test_every_record_of_the_documentation_is_known() -> None:
    translate = CursorEvents()
    records = [json.loads(line) for line in STREAM.read_text().splitlines()]
    assert all(translate(record) is not None for record in records)
