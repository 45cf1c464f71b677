"""The door answers one ask at a time, whatever is shouted through it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

from runners.agent.arena_check import DOOR, PROFILE
from runners.agent.control_socket import Answer, ControlSocket
from runners.agent.workspace import Workspace


def create(folder: Path) -> Workspace:
    return Workspace.create(folder, {"k.cpp": ""}, "k.cpp")


def arena_check(
    workspace: Workspace, *words: str, command: str = "arena-check"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [workspace.folder / command, *words],
        capture_output=True,
        text=True,
        timeout=20,
        cwd="/",
        env={"PATH": os.environ["PATH"]},
    )


def shout(workspace: Workspace, data: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as control_socket:
        control_socket.connect(str(workspace.folder / DOOR))
        control_socket.sendall(data)
        control_socket.shutdown(socket.SHUT_WR)
        return control_socket.makefile("rb").read()


def passing(note: str) -> Answer:
    return {"exit": 0, "text": f"passed: {note}", "speedup": 1.5}


def profiling(case: str) -> Answer:
    return {"exit": 0, "text": f"profiled: {case or 'the largest'}"}


def test_arena_check_prints_the_answer_and_exits_as_it_says(tmp_path: Path) -> None:
    workspace = create(tmp_path / "w")
    with ControlSocket(workspace.folder, passing, profiling):
        told = arena_check(workspace, "wider", "tiles")
        as_json = arena_check(workspace, "--json", "x")
    assert (told.returncode, told.stdout) == (0, "passed: wider tiles\n")
    assert json.loads(as_json.stdout)["speedup"] == 1.5


def test_arena_profile_asks_for_a_case_or_for_the_largest(tmp_path: Path) -> None:
    workspace = create(tmp_path / "w")
    with ControlSocket(workspace.folder, passing, profiling):
        named = arena_check(workspace, "llama-8b", command=PROFILE)
        largest = arena_check(workspace, "--json", command=PROFILE)
    assert (named.returncode, named.stdout) == (0, "profiled: llama-8b\n")
    assert json.loads(largest.stdout)["text"] == "profiled: the largest"


def test_a_workspace_deeper_than_a_socket_path_may_be_is_served(tmp_path: Path) -> None:
    workspace = create(tmp_path.joinpath(*["a-folder-with-a-long-name"] * 6) / "w")
    with ControlSocket(workspace.folder, passing, profiling):
        assert arena_check(workspace).returncode == 0


def test_our_failure_is_told_as_ours_and_kept(tmp_path: Path) -> None:
    def fail(note: str) -> Answer:
        raise RuntimeError("no database")

    workspace = create(tmp_path / "w")
    with ControlSocket(workspace.folder, fail, profiling) as control_socket:
        told = arena_check(workspace)
    assert (told.returncode, "no database" in told.stdout) == (3, False)
    assert str(control_socket.failure) == "no database"


def test_asking_at_a_closed_door_is_the_arenas_fault(tmp_path: Path) -> None:
    workspace = create(tmp_path / "w")
    with ControlSocket(workspace.folder, passing, profiling):
        pass
    assert arena_check(workspace).returncode == 3


def test_nonsense_is_refused_and_the_next_ask_is_answered(tmp_path: Path) -> None:
    workspace = create(tmp_path / "w")
    with ControlSocket(workspace.folder, passing, profiling) as control_socket:
        for nonsense in (
            b"",
            b"\xff\n",
            b"[]\n",
            b'{"op":"read"}\n',
            b'{"op":"profile"}\n',
            b"x" * (1 << 20),
        ):
            try:
                answer = shout(workspace, nonsense)
            except ConnectionError:
                continue  # it stopped listening before we stopped shouting
            assert not answer or json.loads(answer)["exit"] == 2
        assert arena_check(workspace).returncode == 0
        assert control_socket.failure is None
