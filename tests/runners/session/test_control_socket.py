"""Control socket: requests of commands, of arbitrary bytes, and the paused time budget."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
from pathlib import Path

from runners.session.arena_check import PROFILE, SOCKET_NAME
from runners.session.control_socket import Answer, ControlSocket, TimeBudget
from runners.session.workspace import Workspace


def create(folder: Path) -> Workspace:
    return Workspace.create(folder, {"k.cpp": ""}, "k.cpp")


def arena_check(
    workspace: Workspace, *words: str, command: str = "arena-check"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [workspace.folder / command, *words],
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
        env={"PATH": os.environ["PATH"]},
    )


def send_raw(workspace: Workspace, data: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as control_socket:
        control_socket.connect(str(workspace.folder / SOCKET_NAME))
        control_socket.sendall(data)
        control_socket.shutdown(socket.SHUT_WR)
        return control_socket.makefile("rb").read()


def passing(note: str) -> Answer:
    return {"exit": 0, "text": f"passed: {note}", "speedup": 1.5}


def profiling(case: str) -> Answer:
    return {"exit": 0, "text": f"profiled: {case or 'the largest'}"}


def test_arena_check_prints_the_answer_and_exits_with_its_status(tmp_path: Path) -> None:
    workspace = create(tmp_path / "w")
    with ControlSocket(workspace.folder, passing, profiling):
        process = arena_check(workspace, "wider", "tiles")
        as_json = arena_check(workspace, "--json", "x")
    assert (process.returncode, process.stdout) == (0, "passed: wider tiles\n")
    assert json.loads(as_json.stdout)["speedup"] == 1.5


def test_arena_profile_requests_the_named_or_the_largest_case(tmp_path: Path) -> None:
    workspace = create(tmp_path / "w")
    with ControlSocket(workspace.folder, passing, profiling):
        named = arena_check(workspace, "llama-8b", command=PROFILE)
        largest = arena_check(workspace, "--json", command=PROFILE)
    assert (named.returncode, named.stdout) == (0, "profiled: llama-8b\n")
    assert json.loads(largest.stdout)["text"] == "profiled: the largest"


def test_control_socket_in_a_folder_with_a_long_path_answers(tmp_path: Path) -> None:
    workspace = create(tmp_path.joinpath(*["a-folder-with-a-long-name"] * 6) / "w")
    with ControlSocket(workspace.folder, passing, profiling):
        assert arena_check(workspace).returncode == 0


def test_failing_check_exits_as_arena_fault_and_is_kept(tmp_path: Path) -> None:
    def fail(note: str) -> Answer:
        raise RuntimeError("no database")

    workspace = create(tmp_path / "w")
    with ControlSocket(workspace.folder, fail, profiling) as control_socket:
        process = arena_check(workspace)
    assert (process.returncode, "no database" in process.stdout) == (3, False)
    assert str(control_socket.failure) == "no database"


def test_arena_check_after_close_exits_as_arena_fault(tmp_path: Path) -> None:
    workspace = create(tmp_path / "w")
    with ControlSocket(workspace.folder, passing, profiling):
        pass
    assert arena_check(workspace).returncode == 3


def test_malformed_request_is_refused_and_the_next_is_answered(tmp_path: Path) -> None:
    workspace = create(tmp_path / "w")
    with ControlSocket(workspace.folder, passing, profiling) as control_socket:
        for request in (
            b"",
            b"\xff\n",
            b"[]\n",
            b'{"op":"read"}\n',
            b'{"op":"profile"}\n',
            b"x" * (1 << 20),
        ):
            try:
                answer = send_raw(workspace, request)
            except ConnectionError:
                continue  # the server closed the connection before it read all of the request
            assert not answer or json.loads(answer)["exit"] == 2
        assert arena_check(workspace).returncode == 0
        assert control_socket.failure is None


def test_time_budget_ends_after_its_seconds() -> None:
    assert TimeBudget(5, lambda: 100.0).deadline() == 105.0


def test_time_budget_paused_has_no_deadline_and_is_extended_by_the_pause() -> None:
    clock = iter([100.0, 101.0, 103.5])
    budget = TimeBudget(5, lambda: next(clock))
    with budget.paused():
        assert budget.deadline() == math.inf
    assert budget.deadline() == 107.5
