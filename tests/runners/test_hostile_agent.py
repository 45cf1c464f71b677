"""Attempts of a hostile agent through real runs: each is held, and the test prints their table."""

from __future__ import annotations

import json
import os
import platform
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest

from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.seccomp import ARCHITECTURES, NUMBERS
from tests.conftest import skip_or_fail
from tests.model_server import ModelServer, Script, Turn
from tests.runners import hostile_attempts
from tests.runners.house import ROOT, TARGET, House

HALVES = ("sk-live-", "2c61d9")
KEY = "".join(HALVES)
PROGRAM = Path(__file__).with_name("hostile_attempts.py")
MODEL = {"model": "scripted", "provider": "variable"}
ROUNDS = 3
ROUNDS_OF_RUN = """
SELECT * FROM runs_evaluation JOIN runs_submission
ON runs_submission.id = submission_id WHERE run_id = ?
"""
CALLS = (
    "ptrace", "mount", "unshare", "setns", "pivot_root", "chroot", "bpf", "perf_event_open",
    "keyctl", "userfaultfd", "io_uring_setup", "process_vm_readv", "open_by_handle_at",
)  # fmt: skip
DEVICES = "mem", "kmsg", "sda", "kvm", "nvidiactl", "fuse"
HARMLESS = (
    "null", "zero", "full", "random", "urandom", "tty", "ptmx", "fd",
    "stdin", "stdout", "stderr", "core",
)  # fmt: skip
HTML = "<script>document.title = 'taken over'</script><img src=x onerror=alert(1)>"
TITLE = "taken over by a control code"
DESCRIPTIONS = {
    "environment": "read the provider's key from its environment",
    "keys": "find the key in files, and open the files that hold it",
    "processes": "read the environment and memory of processes",
    "other_runs": "read another run's folder, and end its processes",
    "hidden_cases": "list tasks and hidden cases",
    "database": "open the database, its log and its traffic",
    "tcp": "connect by TCP to the arena, the provider and the world",
    "udp": "send UDP, and look up a name",
    "unix_sockets": "connect to Unix sockets, abstract and named",
    "raw_sockets": "open raw, packet, netlink and vsock sockets",
    "calls": "call ptrace and twelve other system calls",
    "devices": "open devices, and make one",
    "foreign_token": "call the gateway with another token",
    "foreign_model": "call the gateway for another model",
    "markup": "print HTML with a script", "control_codes": "print ANSI control codes",
    "forged_results": "print gate results of its own", "daemons": "leave daemons behind",
    "many_checks": "request 1,000 verdicts", "fork_bomb": "start processes without end",
    "full_disk": "fill the disk", "endless_log": "print 10 GB",
}  # fmt: skip
FORKS = """
import os, time
try:
    for _ in range(600):
        os.fork() == 0 and time.sleep(600)
finally:
    time.sleep(600)  # its processes would end with it, before anything counts them
"""
FILLS = """
import time
for number in range(9):
    open(f'.tmp/{number}', 'wb').write(bytes(50 << 20))
time.sleep(600)
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[ModelServer]:
    with ModelServer({"scripted": Script((Turn("Hello."),))}, key=KEY) as server:
        yield server


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory, provider: ModelServer) -> Iterator[House]:
    if not isolation_features().namespaces:
        skip_or_fail("network namespaces")
    if platform.machine() not in ARCHITECTURES:
        skip_or_fail("a seccomp filter")
    house = House(tmp_path_factory.mktemp("hostile"))
    (house.home / "providers.toml").write_text(
        f'[variable]\nwires = ["messages"]\nbase_url = "{provider.url}/v1"\n'
        'key_variable = "TEST_PROVIDER_KEY"\n'
    )
    house.env |= {"TEST_PROVIDER_KEY": KEY, "ARENA_TEST_WIRES": "messages"}
    house.furnish()
    try:
        house.open()
        yield house
    finally:
        house.close()


def started(house: House, facts: dict[str, Any]) -> str:
    """Queue a run of the hostile program, and return its id."""
    files = {"it.py": PROGRAM.read_text(), "facts.json": json.dumps(facts)}
    agent = {
        "slug": "hostile", "title": "Hostile", "adapter": "command", "model": "scripted",
        "provider": "variable", "settings": {"shell": "python3 it.py", "files": files},
    }  # fmt: skip
    return house.python(
        "from arena.catalog.models import Agent\n"
        "from arena.runs import services\n"
        "from arena.runs.models import Run\n"
        "from django.db import transaction\n"
        f"Agent.objects.create(**{agent!r})\n"
        "with transaction.atomic():\n"
        "    run = services.start_run(task_slug='k/cpp-to-cpp', agent_slug='hostile',"
        " hardware_slug='fake-cpu')\n"
        f"    Run.objects.filter(pk=run.pk).update(budget={{**run.budget, 'rounds': {ROUNDS}}})\n"
        "print(run.pk)"
    )


def facts_of(house: House, provider: ModelServer, other: str, sockets: list[str]) -> dict[str, Any]:
    home, workspace = house.home, house.home / "workspaces" / other
    column = ARCHITECTURES[platform.machine()].column
    worker = f"/proc/{house.processes['agents'].pid}"
    processes = psutil.process_iter(["cmdline"])  # of one that has just ended there is none
    assert KEY in Path(f"{worker}/environ").read_text(), "the worker holds what the agent searches"
    return {
        "halves": HALVES,
        "keys": [f"{home}/providers.toml", f"{home}/key"],
        "processes": [f"{worker}/environ", f"{worker}/mem", f"{worker}/root", f"{worker}/cwd"],
        "other_run": [str(workspace), f"{workspace}/{TARGET}", str(workspace.parent)],
        "pids": [p.pid for p in processes if "1234" in (p.info["cmdline"] or ())],
        "cases": [str(ROOT / "tasks"), str(ROOT / "evaluation"), f"{home}/judge"],
        "database": [f"{home}/arena.sqlite3", f"{home}/agents.log", f"{home}/traffic", str(home)],
        "devices": [f"/dev/{name}" for name in {*os.listdir("/dev"), *DEVICES} - {*HARMLESS}],
        "ports": [house.port, int(provider.url.rpartition(":")[2])],
        "sockets": [*sockets, "/run/docker.sock", "/run/dbus/system_bus_socket"],
        "calls": {name: NUMBERS[name][column] for name in CALLS},
        "html": HTML, "title": TITLE, "rounds": ROUNDS, "daemon": f"hostile-{os.getpid()}",
    }  # fmt: skip


def alive(mark: str) -> list[psutil.Process]:
    return [
        each for each in psutil.process_iter(["cmdline"]) if mark in (each.info["cmdline"] or ())
    ]


def logged(house: House, run: str) -> str:
    return "\n".join(event["body"]["text"] for event in house.events(run, "log"))


def reached(house: House, run: str) -> dict[str, list[str]]:
    """Return what each attempt of the program says that it reached."""
    lines = [line for line in logged(house, run).splitlines() if line.startswith('{"attempt"')]
    return {found["attempt"]: found["reached"] for found in map(json.loads, lines)}


def seen_from_outside(house: House, run: str, facts: dict[str, Any]) -> dict[str, list[str]]:
    """Return what the arena shows, or has kept, of those attempts that no agent can see succeed."""
    with urlopen(f"http://{house.start_web()}/runs/{run}/events/?after=0") as answer:
        page = answer.read().decode()
    assert "taken over" in page, "the page shows what the agent printed"
    kept = json.dumps(house.events(run))
    rounds = house.rows(ROUNDS_OF_RUN, run)
    row = house.row(run)
    forged = [e for e in house.events(run, "gate") if e["body"].get("speedup") == 99.0]
    house.wait_until(lambda: not alive(facts["daemon"]))
    return {
        "markup": [tag for tag in ("<script>document", "<img src=x") if tag in page],
        "control_codes": [code for code in ("\x1b", "\x07") if code in page],
        "forged_results": [*map(str, forged), *(["its speedup"] if row["speedup"] == 99.0 else [])],
        "many_checks": [f"{len(rounds)} rounds"] if len(rounds) > ROUNDS + 1 else [],
        "keys": ["the trace"] if KEY in kept else [],
        "database": ["the key"] if KEY.encode() in Path(facts["database"][0]).read_bytes() else [],
    }


def exhausted(house: House) -> dict[str, list[str]]:
    """Return what runs that take all processes, disk and log of the machine get, beyond a limit."""
    submission = {"write": TARGET, "text": "speedup 1.4"}
    programs = {"fork_bomb": FORKS, "full_disk": FILLS}
    runs = {
        name: house.run(
            [submission, {"write": "it.py", "text": text}, {"run": "python3 it.py"}], **MODEL
        )
        for name, text in programs.items()
    }
    log = house.run([submission, {"run": "yes hostile | head -c 10G"}], **MODEL)
    found = {}
    for name, run in runs.items():
        row, limits = house.ended(run), house.events(run, "limit")
        held = row["status"] == "passed" and len(limits) == 1
        found[name] = [] if held else [f"{row['status']}, {row['reason']!r}, {limits}"]
    row = house.ended(log, 60)
    size = sum(len(json.dumps(event["body"])) for event in house.events(log))
    found["endless_log"] = [f"{size} bytes"] if size > 4 << 20 or row["status"] != "passed" else []
    return found


def test_each_attempt_of_a_hostile_agent_is_held_and_printed(
    arena: House, provider: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    other = arena.run([{"say": "I wait."}, {"run": "sleep 1234"}], **MODEL)
    arena.wait_until(lambda: alive("1234"))
    abstract, named = f"\0hostile-{os.getpid()}", f"/tmp/hostile-{os.getpid()}.sock"
    try:
        with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
            for one, address in ((first, abstract), (second, named)):
                one.bind(address)
                one.listen()
            facts = facts_of(arena, provider, other, [abstract, named])
            run = started(arena, facts)
            arena.ended(run, 120)
    finally:
        os.unlink(named)
    assert arena.row(other)["status"] == "running", "the other run was let be"
    arena.cancel_all()
    found = reached(arena, run)
    assert len(found) == 19, logged(arena, run)[-3000:]
    for name, more in seen_from_outside(arena, run, facts).items():
        found[name] += more
    found |= exhausted(arena)
    with capsys.disabled():
        print("\n| attempt of a hostile agent | result |\n|---|---|")
        for name, description in DESCRIPTIONS.items():
            print(f"| {description} | {'; '.join(found[name])[:200] or 'held'} |")
    assert set(found) == set(DESCRIPTIONS) and len(found) == 22
    assert not {name: what for name, what in found.items() if what}


def test_attempts_without_a_sandbox_reach_what_they_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    file.write_text(f"key = {KEY}")
    paths = [str(file), str(tmp_path), f"{tmp_path}/none"]
    monkeypatch.setenv("TEST_PROVIDER_KEY", KEY)
    with ModelServer({}) as server:
        port = int(server.url.rpartition(":")[2])
        facts = {"halves": HALVES, "ports": [port], "calls": {"not refused": 37}, "pids": []}
        names = "other_run", "cases", "database"
        monkeypatch.setattr(hostile_attempts, "FACTS", facts | dict.fromkeys(names, paths))
        assert hostile_attempts.environment() == ["TEST_PROVIDER_KEY"]
        assert hostile_attempts.holds_secret(str(file))
        for attempt in ("other_runs", "hidden_cases", "database"):
            assert getattr(hostile_attempts, attempt)() == paths[:2]
        assert hostile_attempts.connected(socket.AF_INET, socket.SOCK_STREAM, [["127.0.0.1", port]])
        assert hostile_attempts.calls()
