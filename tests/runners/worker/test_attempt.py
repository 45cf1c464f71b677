"""A run from its claim to its end: rounds, refusals, limits, and whose fault an end is."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from runners.session.arena_check import SOCKET_NAME
from runners.worker import attempt
from tests.runners.house import TARGET, House


def hand_in(source: str) -> list[dict[str, Any]]:
    return [{"write": TARGET, "text": source}, {"check": source}]


FOREVER = {"run": "exec sleep 1000"}


def evaluations(house: House, run: str) -> list[str]:
    """Return the states of a run's evaluations."""
    query = (
        "SELECT e.status FROM runs_evaluation e"
        " JOIN runs_submission s ON s.id = e.submission_id WHERE s.run_id = ?"
    )
    return [row["status"] for row in house.rows(query, run)]


def wait_for_heartbeats(house: House, run: str, count: int) -> None:
    """Wait for heartbeats of a run: the time of its agent was asked for as often."""
    for _ in range(count):
        before = house.row(run)["heartbeat_at"]
        house.wait_until(lambda last=before: house.row(run)["heartbeat_at"] != last)


def tool_outputs(house: House, run: str) -> list[str]:
    return [event["body"]["output"] for event in house.events(run, "tool_result")]


def test_the_fastest_round_that_passed_is_judged_in_the_end(house: House) -> None:
    sources = ("does not compile", "wrong", "speedup 1.5", "speedup 1.2")
    run = house.run([step for source in sources for step in hand_in(source)])
    row = house.ended(run)
    assert (row["status"], row["reason"], row["fault"]) == ("passed", "", "")
    assert (row["rounds"], row["speedup"], row["unseen_speedup"]) == (4, 1.5, 1.5)
    (final,) = house.rows("SELECT * FROM runs_submission WHERE id = ?", row["final_id"])
    assert final["round"] == 3
    told = tool_outputs(house, run)
    assert "failed BUILD_ERROR" in told[0] and "k.cpp:1: error: expected ';'" in told[0]
    assert "failed WRONG_VALUES" in told[1]
    assert "speedup 1.500x (1.490 to 1.510)" in told[2] and "8 of 12 left" in told[3]
    assert "unseen" not in "".join(told)
    assert not (house.home / "workspaces" / run).exists()


def test_a_noisy_figure_does_not_win_over_a_sure_one(house: House) -> None:
    run = house.run(hand_in("speedup 3.0 within 2.5") + hand_in("speedup 1.5"))
    assert house.ended(run)["speedup"] == 1.5


@pytest.mark.parametrize(
    ("source", "status", "fault", "speedup"),
    [("busy, speedup 1.4", "passed", "", 1.4), ("always busy", "broken", "arena", None)],
)
def test_rounds_that_could_not_be_measured_are_no_failure_of_the_candidate(
    house: House, source: str, status: str, fault: str, speedup: float | None
) -> None:
    row = house.ended(house.run(hand_in(source)))
    assert (row["status"], row["fault"], row["speedup"]) == (status, fault, speedup)
    assert row["reason"] == ("" if speedup else BUSY)


BUSY = "processor busy 74 % of the time: inconclusive"


@pytest.mark.parametrize(
    ("before", "status", "fault", "reason"),
    [
        (hand_in("speedup 1.5"), "passed", "", ""),
        (hand_in("wrong"), "failed", "candidate",
         "No round passed. Round 1, the last: case nominal. The agent ended early. Round 5 could"
         f" not be measured: {BUSY}"),
        ([], "broken", "arena", f"No round could be measured. Round 4, the last: {BUSY}"),
    ],
    ids=["passed before", "failed before", "first"],
)  # fmt: skip
def test_agent_that_ends_at_a_busy_machine_keeps_its_best_verdict_and_did_not_crash(
    house: House, before: list[dict[str, Any]], status: str, fault: str, reason: str
) -> None:
    row = house.ended(run := house.run(before + hand_in("busy at once") + hand_in("speedup 9.0")))
    assert (row["status"], row["fault"], row["reason"]) == (status, fault, reason)
    assert row["speedup"] == (1.5 if status == "passed" else None)
    (error,) = house.events(run, "error")
    assert error["body"]["fault"] == "arena"
    assert error["body"]["message"].endswith(f"could not be measured: {BUSY}")
    notes = [event["body"]["text"] for event in house.events(run, "note")]
    assert [note.partition("again, ")[2][:14] for note in notes] == [
        f"{number} of at most 3" for number in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("source", "fault"),
    [("busy at once", "arena"), ("wrong", "candidate")],
    ids=["inconclusive", "failed"],
)
def test_program_with_the_status_of_an_arena_fault_is_believed_after_an_inconclusive_round(
    house: House, source: str, fault: str
) -> None:
    shell = f"echo {source} > {TARGET}; ./arena-check; exit 3"
    row = house.ended(run := house.run(adapter="command", settings={"shell": shell}))
    assert row["fault"] == fault
    (error,) = house.events(run, "error")
    assert error["body"]["fault"] == fault


def test_events_are_numbered_without_gaps_and_in_the_order_of_what_happened(
    house: House,
) -> None:
    run = house.run([{"say": "I begin."}, *hand_in("speedup 1.5")])
    house.ended(run)
    events = house.events(run)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    kinds = [event["kind"] for event in events]
    said, edited, asked = (kinds.index(k) for k in ("message", "file_edit", "tool_call"))
    assert said < edited < asked < kinds.index("span_begin") < kinds.index("tool_result")
    numbers = [e["producer_seq"] for e in events if e["producer"].startswith("agent:")]
    assert numbers == list(range(len(numbers))) and len(numbers) == 4


def test_what_cannot_be_frozen_is_refused_with_a_reason_and_costs_no_round(
    house: House,
) -> None:
    spoil = [
        f"head -c 50000000 /dev/zero > {TARGET}",
        f"printf 'int \\377;' > {TARGET}",
        f"rm {TARGET}",
        f"ln -s /etc/passwd {TARGET}",
    ]
    steps = [step for command in spoil for step in ({"run": command}, {"check": ""})]
    row = house.ended(run := house.run(steps))
    assert (row["status"], row["fault"], row["rounds"]) == ("failed", "candidate", 0)
    why = "must be a regular file: Too many levels of symbolic links"
    assert row["reason"] == f"Nothing was handed in: {TARGET} {why}."
    reasons = [event["body"]["text"] for event in house.events(run, "note")]
    assert [reason.partition(f"{TARGET} ")[2] for reason in reasons] == [
        "has 50,000,000 bytes; the limit is 1,000,000",
        "is not UTF-8: byte 0xff at offset 4",
        "is not there",
        "must be a regular file: Too many levels of symbolic links",
    ]


@pytest.mark.parametrize(
    ("source", "status", "speedup"), [("speedup 1.4", "passed", 1.4), ("wrong", "failed", None)]
)
def test_what_an_agent_wrote_that_asked_for_no_verdict_is_judged(
    house: House, source: str, status: str, speedup: float | None
) -> None:
    row = house.ended(run := house.run([{"write": TARGET, "text": source}]))
    assert (row["status"], row["rounds"], row["speedup"]) == (status, 1, speedup)
    assert row["reason"] == ("" if speedup else "case nominal")
    begun = [e["body"] for e in house.events(run, "span_begin")]
    assert [body["scope"] for body in begun] == ["", "final"]
    assert begun[0]["note"] == "as it was left: the agent asked for no verdict"


def test_what_is_left_when_the_time_is_up_is_judged_too(house: House) -> None:
    run = house.run([{"write": TARGET, "text": "speedup 1.4"}, FOREVER])
    house.wait_until(lambda: house.events(run, "tool_call"))
    with house.time_is_up():
        row = house.ended(run)
    assert (row["status"], row["speedup"]) == ("passed", 1.4)


def test_a_verdict_that_the_agent_did_not_wait_for_is_found_in_the_end(house: House) -> None:
    waits = "while [ ! -e %s ]; do sleep 0.1; done"
    steps = [
        {"write": TARGET, "text": "speedup 1.4"},
        {"run": f"{waits % 'ask'}; ./arena-check > /dev/null 2>&1 & {waits % 'go'}"},
    ]
    run = house.run(steps)
    house.wait_until(lambda: house.events(run, "tool_call"))
    house.stop("hardware")  # an agent does not end while its cores are measured
    (house.home / "workspaces" / run / "ask").touch()
    house.wait_until(lambda: "built" in evaluations(house, run))
    (house.home / "workspaces" / run / "go").touch()
    house.wait_until(lambda: house.events(run, "tool_result"))
    house.start_worker("hardware")
    row = house.ended(run)
    assert (row["status"], row["rounds"], row["speedup"]) == ("passed", 1, 1.4)


def test_an_agent_that_changed_nothing_and_asked_nothing_is_told_so(house: House) -> None:
    row = house.ended(house.run([{"say": "I would not know how."}]))
    assert (row["status"], row["fault"], row["rounds"]) == ("failed", "candidate", 0)
    assert row["reason"] == f"Nothing was handed in: {TARGET} is as it was given."


def test_asking_past_the_budget_is_refused(house: House) -> None:
    run = house.run(hand_in("speedup 1.1") + hand_in("speedup 2.0"), rounds=1)
    row = house.ended(run)
    assert (row["status"], row["rounds"], row["speedup"]) == ("passed", 1, 1.1)
    codes = [event["body"]["exit_code"] for event in house.events(run, "tool_result")]
    assert codes == [0, 2]
    (limit,) = house.events(run, "limit")
    assert limit["body"]["text"] == "All 1 rounds are spent."


def test_refusals_for_one_reason_are_one_event(house: House) -> None:
    again = [{"check": "again"}] * 20
    run = house.run([*hand_in("speedup 1.1"), *again], rounds=1)
    assert house.ended(run)["status"] == "passed"
    assert len(house.events(run, "limit")) == 1
    assert len(tool_outputs(house, run)) == 21


def test_cancelled_verdict_is_not_told_to_be_judged_again(house: House) -> None:
    run = house.run(hand_in("speedup 1.3 waits"), seconds=1000)
    with house.judge_waits():
        house.wait_until(lambda: "measuring" in evaluations(house, run))
        house.python(
            "from arena.runs import services; from arena.runs.models import Run\n"
            f"services.cancel_run(Run.objects.get(pk={run!r}), None)"
        )
        assert house.ended(run)["status"] == "cancelled"
    logs = [event["body"]["text"] for event in house.events(run, "log")]
    assert not any("retried" in text or "again" in text for text in logs), logs


def test_time_stands_still_while_a_verdict_is_awaited_and_then_runs_out(house: House) -> None:
    run = house.run([*hand_in("speedup 1.3 waits"), FOREVER], seconds=1000)
    with house.judge_waits() as go:
        house.wait_until(lambda: "measuring" in evaluations(house, run))
        with house.time_is_up():
            wait_for_heartbeats(house, run, 3)
            assert house.row(run)["status"] == "running"
            go.touch()
            row = house.ended(run)
    assert (row["status"], row["speedup"]) == ("passed", 1.3)
    (limit,) = house.events(run, "limit")
    assert limit["body"]["text"] == "Its 1000 seconds are spent."
    # The agent may be ended before it reads its verdict, which its own column keeps.
    assert [each["seq"] < limit["seq"] for each in house.events(run, "tool_result")] in ([True], [])


def written_by(command: str) -> list[dict[str, Any]]:
    """Return steps that write to the agent's own output, without a session."""
    return [{"run": f"{command} > /proc/$PPID/fd/1"}, FOREVER]


@pytest.mark.parametrize(
    ("command", "name", "limit", "text"),
    [
        (
            "yes",
            "events",
            100_000,
            "Its output exceeds the limit of a run, 100,000 events or 256 MiB.",
        ),
        ("head -c 9000000 /dev/zero", "line_bytes", 8 << 20, "A line of its output exceeds 8 MiB."),
    ],
)
def test_an_agent_that_says_too_much_is_told_of_which_limit(
    house: House, command: str, name: str, limit: int, text: str
) -> None:
    row = house.ended(run := house.run(written_by(command)), 60)
    assert (row["status"], row["fault"]) == ("failed", "candidate")
    (event,) = house.events(run, "limit")
    assert [event["body"][key] for key in ("name", "limit", "text")] == [name, limit, text]


def test_a_cancelled_run_stops_and_leaves_no_process(house: House) -> None:
    run = house.run([FOREVER])
    house.wait_until(lambda: bool(house.events(run, "tool_call")), 20)
    house.python(
        "from arena.runs import services; from arena.runs.models import Run\n"
        f"services.cancel_run(Run.objects.get(pk={run!r}), None)"
    )
    row = house.ended(run)
    assert (row["status"], row["fault"]) == ("cancelled", "user")
    assert not (house.home / "workspaces" / run).exists()


def test_an_agent_that_crashes_fails_with_its_last_words(house: House) -> None:
    row = house.ended(run := house.run([{"fly": "to the moon"}]))
    assert (row["status"], row["fault"]) == ("failed", "candidate")
    assert 'BadStep: not a step: {"fly": "to the moon"}' in row["reason"]
    (error,) = house.events(run, "error")
    assert error["body"]["message"] == "The agent ended with status 1."


WARN = {"run": "echo careful > /proc/$PPID/fd/2"}
FLOOD = {"run": "yes > /proc/$PPID/fd/1"}


@pytest.mark.parametrize(
    ("rest", "in_log", "in_error"),
    [
        ([], 1, 0),
        (hand_in("speedup 1.5"), 1, 0),
        (hand_in("breaks"), 1, 0),
        ([FOREVER], 1, 0),
        ([FLOOD], 1, 0),
        ([{"fly": "away"}], 0, 1),
    ],
    ids=["ends", "is judged", "cannot be judged", "is late", "floods", "crashes"],
)
def test_what_an_agent_says_on_stderr_is_kept_once_however_it_ends(
    house: House, rest: list[dict[str, Any]], in_log: int, in_error: int
) -> None:
    run = house.run([WARN, *rest])
    if FOREVER in rest:
        house.wait_until(lambda: len(house.events(run, "tool_call")) == 2)
        with house.time_is_up():
            house.ended(run)
    house.ended(run, 60)
    told = [e["body"] for e in house.events(run, "log") if e["body"]["stream"] == "stderr"]
    assert [body["text"].count("careful") for body in told] == [1] * in_log
    errors = [event["body"]["traceback"] for event in house.events(run, "error")]
    assert [text.count("careful") for text in errors] == [1] * in_error


def test_an_agent_whose_adapter_is_not_here_is_the_arenas_fault(house: House) -> None:
    row = house.ended(house.run([], adapter="gone"))
    assert (row["status"], row["fault"]) == ("broken", "arena")
    assert "there is no adapter 'gone' here" in row["reason"]


def test_a_judge_that_breaks_once_is_asked_again(house: House) -> None:
    row = house.ended(house.run(hand_in("breaks once, speedup 1.4")))
    assert (row["status"], row["speedup"]) == ("passed", 1.4)


def test_a_judge_that_keeps_breaking_is_the_arenas_fault(house: House) -> None:
    row = house.ended(run := house.run(hand_in("breaks") + hand_in("speedup 2.0")))
    assert (row["status"], row["fault"], row["rounds"]) == ("broken", "arena", 1)
    assert "status 3: RuntimeError: the judge lost its mind" in row["reason"]
    codes = [event["body"]["exit_code"] for event in house.events(run, "tool_result")]
    assert codes == [3]


def test_an_agent_sees_its_workspace_and_nothing_of_the_arena(house: House) -> None:
    home = house.home
    connect = f"import socket; socket.create_connection(('127.0.0.1', {house.port}))"
    steps = [
        {"run": "env | cut -d= -f1 | sort | tr '\\n' ' '"},
        {"run": f"cat {home}/arena.sqlite3 | head -c 6; ls {home} {home}/workspaces"},
        {"run": "ls tasks ../../../tasks /work /root /home; cat /etc/shadow"},
        {"run": f'python3 -c "{connect}"'},
        {"run": "ls -A"},
    ]  # fmt: skip
    run = house.run(steps)
    house.ended(run)
    environment, database, system, network, folder = tool_outputs(house, run)
    assert set(environment.split()) <= {
        "HOME", "LANG", "PATH", "PWD", "OLDPWD", "PYTHONDONTWRITEBYTECODE", "SHLVL", "TMPDIR", "_",
    }  # fmt: skip
    assert "SQLite" not in database and database.count("Permission denied") >= 2
    assert "Permission denied" in system and "root:" not in system and "rms_norm" not in system
    assert "Error" in network
    assert set(folder.split()) == {
        SOCKET_NAME, ".tmp", "AGENTS.md", "CLAUDE.md", "TASK.md", "arena-check", "arena-mcp",
        "arena-profile", TARGET,
    }  # fmt: skip


KNOCK = """
import socket, sys
for path in sys.argv[1:]:
    asked = socket.socket(socket.AF_UNIX)
    try:
        asked.connect(path)
        asked.sendall(b'{"op": "profile", "case": ""}\\n')
        print(asked.makefile().readline())
    except OSError as error:
        print(type(error).__name__)
"""


def test_an_agent_reaches_its_own_door_and_no_other_socket(house: House, tmp_path: Path) -> None:
    waits = house.run([{"run": "while [ ! -e go ]; do sleep 0.1; done"}, {"say": "Not disturbed."}])
    others = house.home / "workspaces" / waits
    house.wait_until((others / SOCKET_NAME).exists, 20)
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(outside := str(tmp_path / "service"))
        service.listen()
        ask = f"{sys.executable} knock.py {SOCKET_NAME} {others / SOCKET_NAME} {outside}"
        run = house.run([{"write": "knock.py", "text": KNOCK}, {"run": ask}])
        house.ended(run)
    (others / "go").touch()
    house.ended(waits)
    own, *closed = filter(None, tool_outputs(house, run)[-1].splitlines())
    assert "Nothing was handed in yet" in own
    assert closed == ["FileNotFoundError"] * 2
    assert not house.events(waits, "note")


def test_what_this_machine_cannot_judge_ends_at_once_and_fails_nobody(house: House) -> None:
    row = house.ended(run := house.run(hand_in("no device") + hand_in("speedup 2.0")))
    assert (row["status"], row["fault"], row["rounds"]) == ("broken", "arena", 1)
    assert row["reason"] == "fake-cpu cannot judge this task: there is no GPU"
    codes = [event["body"]["exit_code"] for event in house.events(run, "tool_result")]
    assert codes == [3]


def test_folders_too_deep_to_be_walked_are_no_ones_fault_and_gone(house: House) -> None:
    code = "import os\nfor _ in range(1100):\n os.mkdir('d'); os.chdir('d')"
    row = house.ended(run := house.run([{"run": f'python3 -c "{code}"'}, *hand_in("speedup 1.5")]))
    assert (row["status"], row["speedup"]) == ("passed", 1.5)
    assert not (house.home / "workspaces" / run).exists()


def test_workspaces_that_cannot_be_swept_end_no_run(
    tmp_path: Path, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.ARENA_HOME = tmp_path
    (tmp_path / "workspaces").touch()
    attempt.sweep()
    assert "workspaces are not swept" in caplog.text


def test_what_was_asked_for_alone_does_not_wait_for_a_set(house: House) -> None:
    house.stop("agents")
    *of_set, alone = (house.run([{"pause": 0.2}]) for _ in range(3))
    house.python(
        "from arena.runs.models import Experiment, Run\n"
        "experiment = Experiment.objects.create(slug='set', title='Set')\n"
        f"Run.objects.filter(pk__in={of_set!r}).update(experiment=experiment)"
    )
    house.start_worker("agents")
    began = {run: house.ended(run)["started_at"] for run in (*of_set, alone)}
    assert began[alone] < began[of_set[0]] < began[of_set[1]], "two at a time, and it came last"
