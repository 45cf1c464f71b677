"""Attempts of an agent to leave its sandbox, made through real runs with a model's gateway."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from evaluation.sandbox.features import isolation_features
from tests.conftest import skip_or_fail
from tests.model_server import ModelServer, Script, Turn
from tests.runners.house import ROOT, TARGET, House

HALVES = ("sk-live-", "7f3a9c")
"""Of the key: a probe must not find its own text."""
DECOY = ("decoy-", "41d8cd")
"""In the workspace, so that a search that finds nothing fails."""
KEY = "".join(HALVES)
MODEL = {"model": "scripted", "provider": "variable"}
ABSTRACT = "\0arena-test-confinement"

READ = f"""
import glob, os
secrets = [{HALVES[0]!r} + {HALVES[1]!r}, {DECOY[0]!r} + {DECOY[1]!r}]
found = []
def search(path, limit=1 << 22):
    try:
        with open(path, "rb") as file:
            content = file.read(limit)
    except OSError:
        return
    if any(secret.encode() in content for secret in secrets):
        found.append(os.path.basename(path))
if any(secret in str(os.environ) for secret in secrets):
    found.append("environment")
for path in PATHS:
    search(path)
for process in glob.glob("/proc/[0-9]*"):
    for name in ("environ", "cmdline", "mem", "maps", "auxv"):
        search(process + "/" + name)
    for path in glob.glob(process + "/fd/*") + glob.glob(process + "/root/*"):
        if os.path.isfile(path):
            search(path)
def walk(start, left_out):
    for top, folders, names in os.walk(start):
        folders[:] = [each for each in folders if each not in left_out]
        for name in names:
            if os.path.isfile(os.path.join(top, name)):
                search(os.path.join(top, name))
walk("/", ["usr", "proc", "sys", "dev", "site-packages", "lib"])
walk(os.getcwd(), [])
print("found", found)
def listed(path):
    try:
        return os.listdir(path)
    except OSError:
        return []
print("listed", [path for path in FOLDERS if listed(path)])
print("seen", [path for path in PATHS if os.path.exists(path)])
"""
REACH = """
import os, socket
def attempt(name, act):
    try:
        print(name, "REACHED", act())
    except Exception as error:
        print(name, type(error).__name__)
def connect(family, kind, address):
    with socket.socket(family, kind) as s:
        s.settimeout(3)
        s.connect(address)
        s.send(b"PING")
        return s.recv(10)
STREAM, DATAGRAM = socket.SOCK_STREAM, socket.SOCK_DGRAM
for port in PORTS:
    for host in ("127.0.0.1", "127.0.0.2"):
        attempt(f"tcp {host}", lambda: connect(socket.AF_INET, STREAM, (host, port)))
    attempt("tcp6", lambda: connect(socket.AF_INET6, STREAM, ("::1", port)))
    attempt("mapped", lambda: connect(socket.AF_INET6, STREAM, ("::ffff:127.0.0.1", port)))
for host in ("203.0.113.7", "169.254.169.254", "10.0.0.1"):
    attempt("tcp", lambda: connect(socket.AF_INET, STREAM, (host, 443)))
attempt("tcp6", lambda: connect(socket.AF_INET6, STREAM, ("2001:db8::1", 443)))
attempt("udp", lambda: connect(socket.AF_INET, DATAGRAM, ("203.0.113.8", 123)))
attempt("udp6", lambda: connect(socket.AF_INET6, DATAGRAM, ("2001:db8::1", 123)))
attempt("dns", lambda: socket.getaddrinfo("exfiltrated.example.com", 443))
attempt("abstract", lambda: connect(socket.AF_UNIX, STREAM, ABSTRACT))
for path in SOCKETS:
    attempt("unix", lambda: connect(socket.AF_UNIX, STREAM, path))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
attempt("vsock", lambda: socket.socket(40, STREAM, 0))
import urllib.request, urllib.error
try:
    urllib.request.urlopen("http://127.0.0.1:8400/v1/models", timeout=5)
except urllib.error.HTTPError as error:
    print("gateway", error.code)
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[ModelServer]:
    with ModelServer({"scripted": Script((Turn("Hello."),))}, key=KEY) as server:
        yield server


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory, provider: ModelServer) -> Iterator[House]:
    """A house whose scripted agents have a model, and whose worker has keys."""
    if not isolation_features().namespaces:
        skip_or_fail("network namespaces")
    home = tmp_path_factory.mktemp("confined")
    house = House(home)
    (home / "key").write_text(KEY)
    (home / "providers.toml").write_text(
        f'[variable]\nwires = ["messages"]\nbase_url = "{provider.url}/v1"\n'
        f'key_variable = "TEST_PROVIDER_KEY"\n# {KEY}\n'
        f'[filed]\nwires = ["messages"]\nbase_url = "{provider.url}/v1"\n'
        f'key_file = "{home / "key"}"\n'
    )
    house.env |= {"TEST_PROVIDER_KEY": KEY, "ARENA_TEST_WIRES": "messages"}
    house.furnish()
    try:
        house.open()
        yield house
    finally:
        house.close()


def probe(program: str, **values: Any) -> dict[str, str]:
    """Return a step that runs a Python program in the agent's sandbox."""
    head = "\n".join(f"{name} = {value!r}" for name, value in values.items())
    return {"run": f"python3 -I - <<'PROBE'\n{head}\n{program}\nPROBE"}


def outputs(house: House, run: str) -> list[str]:
    return [event["body"]["output"] for event in house.events(run, "tool_result")]


@pytest.mark.parametrize("provider_name", ["variable", "filed"])
def test_an_agent_finds_no_key_and_no_hidden_case(arena: House, provider_name: str) -> None:
    home = arena.home
    worker = Path(f"/proc/{arena.processes['agents'].pid}/environ")
    assert KEY in worker.read_text(), "the worker holds what the agent searches"
    paths = [home / "key", home / "providers.toml", home / "arena.sqlite3", worker]
    paths += [
        ROOT / "tasks/Math/softmax/task.toml",
        ROOT / "arena/settings.py",
        home / "agents.log",
    ]
    folders = [home, home / "traffic", ROOT / "tasks", ROOT / "evaluation", home / "judge"]
    step = probe(READ, PATHS=[*map(str, paths)], FOLDERS=[*map(str, folders)])
    imports = {"run": "python3 -c 'import arena' ; python3 -c 'import evaluation'"}
    decoy = {"write": "decoy", "text": "".join(DECOY)}
    run = arena.run([decoy, step, imports], model="scripted", provider=provider_name)
    arena.ended(run)
    found, imported = outputs(arena, run)
    lines = found.splitlines()
    assert lines == ["found ['decoy']", "listed []", "seen []"], found
    assert imported.count("ModuleNotFoundError") == 2
    everything = json.dumps(arena.events(run))
    assert KEY not in everything
    assert KEY.encode() not in (home / "arena.sqlite3").read_bytes()
    assert not any(KEY in path.read_text(errors="replace") for path in home.glob("*.log"))
    for path in (home / "traffic").glob("*"):
        assert KEY not in path.read_text() and path.parent.stat().st_mode & 0o077 == 0


def test_an_agent_reaches_no_address_and_each_attempt_is_in_the_trace(
    arena: House, provider: ModelServer
) -> None:
    with (
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
    ):
        abstract.bind(ABSTRACT)
        path = f"/tmp/arena-{os.getpid()}.sock"
        named.bind(path)
        for each in (abstract, named):
            each.listen()
        provider_port = int(provider.url.rpartition(":")[2])
        ports = [arena.port, provider_port]
        asked = provider.requests
        step = probe(REACH, PORTS=ports, ABSTRACT=ABSTRACT, SOCKETS=[path, "/run/docker.sock"])
        run = arena.run([step], **MODEL)
        arena.ended(run)
        os.unlink(path)
    (output,) = outputs(arena, run)
    lines = output.splitlines()
    assert len(lines) == 8 + 3 + 1 + 2 + 1 + 1 + 2 + 4 + 1, output
    assert not any("REACHED" in line for line in lines), output
    assert lines[-1] == "gateway 401"
    assert provider.requests == asked
    refused = {
        event["body"]["text"]
        for event in arena.events(run, "log")
        if event["body"].get("stream") == "network"
    }
    for attempted in (
        *(f"TCP connection to {h}:{p} refused" for h in ("127.0.0.1", "127.0.0.2") for p in ports),
        *(f"TCP connection to {h}:443 refused" for h in ("203.0.113.7", "169.254.169.254")),
        "UDP connection to 203.0.113.8:123 refused",
        "look-up of exfiltrated.example.com refused",
    ):
        assert attempted in refused, refused


def test_an_agent_reaches_neither_workspace_nor_socket_nor_processes_of_another_run(
    arena: House,
) -> None:
    seconds = f"1000.{os.getpid()}"  # other tests sleep too
    first = arena.run([{"say": "I wait."}, {"run": f"sleep {seconds}"}], **MODEL)
    arena.wait_until(lambda: bool(arena.events(first, "tool_call")), 30)
    other = arena.home / "workspaces" / first
    assert (other / TARGET).exists() and (other / ".arena-socket").exists()
    program = """
import os, socket, signal
def attempt(name, act):
    try:
        print(name, "REACHED", act())
    except OSError as error:
        print(name, type(error).__name__)
def connect():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(OTHER + "/.arena-socket")
attempt("list", lambda: os.listdir(OTHER))
attempt("read", lambda: open(OTHER + "/" + TARGET).read())
attempt("write", lambda: open(OTHER + "/" + TARGET, "w").write("x"))
attempt("connect", connect)
for pid in PIDS:
    attempt("kill", lambda: os.kill(pid, signal.SIGKILL))
attempt("workspaces", lambda: os.listdir(os.path.dirname(os.getcwd())))
sleeping = b"sleep" + bytes([0]) + SECONDS.encode()
print("visible", [pid for pid in os.listdir("/proc") if pid.isdigit() and
    sleeping in open(f"/proc/{pid}/cmdline", "rb").read()])
"""

    def sleeping() -> list[int]:
        return [
            process.pid
            for process in psutil.process_iter(["name", "cmdline"])
            if "sleep" in process.info["name"] and seconds in (process.info["cmdline"] or ())
        ]

    arena.wait_until(lambda: bool(sleeping()), 30)  # the call shows before its process runs
    pids = sleeping()
    step = probe(program, OTHER=str(other), TARGET=TARGET, PIDS=pids, SECONDS=seconds)
    second = arena.run([step], **MODEL)
    arena.ended(second)
    (output,) = outputs(arena, second)
    lines = output.splitlines()
    assert len(lines) == 4 + len(pids) + 2, output
    assert not any("REACHED" in line for line in lines), output
    assert lines[-1] == "visible []"
    assert all(psutil.pid_exists(pid) for pid in pids)
    assert arena.row(first)["status"] not in ("passed", "failed", "broken")
    arena.python(
        "from arena.runs.models import Run\n"
        f"Run.objects.filter(pk={first!r}).update(cancel_requested=True)"
    )
    assert arena.ended(first)["status"] == "cancelled"


def test_a_daemon_does_not_outlive_its_run(arena: House) -> None:
    mark = f"arena-daemon-{os.getpid()}"
    program = f"""
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for name in range(1, 65):
            try:
                signal.signal(name, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        code = "import time; time.sleep(600)"
        os.execv(sys.executable, [sys.executable, "-I", "-c", code, {mark!r}])
    os._exit(0)
os.wait()
while not [p for p in os.listdir("/proc") if p.isdigit() and
    {mark!r} in open(f"/proc/{{p}}/cmdline").read()]:
    time.sleep(0.01)
print(True)
"""
    run = arena.run([probe(program), {"run": "while [ ! -e go ]; do sleep 0.1; done"}], **MODEL)
    arena.wait_until(lambda: len(outputs(arena, run)) == 1)
    assert outputs(arena, run)[0].strip() == "True", "it ran beside the agent"
    assert marked(mark), "it was seen from outside"
    (arena.home / "workspaces" / run / "go").touch()
    arena.ended(run)
    arena.wait_until(lambda: not marked(mark))
    arena.wait_until(lambda: not (arena.home / "workspaces" / run).exists())


def marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if mark in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found
