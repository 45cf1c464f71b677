"""One command starts the arena, says in one line why it cannot, and ends what it started."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis.asyncio
from dramatiq import Message
from dramatiq.brokers.redis import RedisBroker
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from arena import sockets
from evaluation.tasks.spec import folder_of
from runners import launcher
from tests.conftest import free_port
from tests.runners.house import ROOT
from tests.waiting import until

LAUNCH = (sys.executable, "-m", "runners")
TASK = "rms_norm"
OLD_PYTHON = (
    sys.executable,
    "-c",
    "import runpy, sys; sys.version_info = (3, 9, 2, 'final', 0)\n"
    "runpy.run_module('runners', run_name='__main__')",
)


def environment(home: Path, **more: str) -> dict[str, str]:
    mine = ("REDIS_URL", "DATABASE_URL", "DJANGO_SETTINGS_MODULE")
    env = {name: value for name, value in os.environ.items() if name not in mine}
    return {**env, "ARENA_HOME": str(home), "PORT": str(free_port()), **more}


def refusal(home: Path, command: tuple[str, ...] = LAUNCH, **env: str) -> str:
    """Return the one line of a launch that must not start."""
    done = subprocess.run(
        command, env=environment(home, **env), cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_taken_port_is_named_with_a_way_out(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refusal(tmp_path / "home", PORT=str(port))
    assert said.startswith(f"arena: port {port} is taken") and "PORT=" in said
    assert not (tmp_path / "home").exists()


def test_a_port_that_is_none_is_refused(tmp_path: Path) -> None:
    assert "PORT=web is not a port" in refusal(tmp_path / "home", PORT="web")


def test_a_missing_compiler_is_named_with_the_package_to_install(tmp_path: Path) -> None:
    said = refusal(tmp_path / "home", PATH=str(tmp_path))
    assert "there is no g++" in said and "apt install g++" in said
    assert not (tmp_path / "home").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = refusal(tmp_path / "file" / "home")
    assert f"{tmp_path}/file/home cannot be written to (Not a directory)" in said


def test_a_python_too_old_is_told_which_to_install(tmp_path: Path) -> None:
    assert "install Python 3.11 or newer" in refusal(tmp_path / "home", OLD_PYTHON)


def test_neither_pages_nor_launcher_load_what_only_the_judge_needs(tmp_path: Path) -> None:
    """A second start takes seconds, and torch alone would take as many; so would statistics."""
    program = (
        "import sys, django; django.setup()\n"
        "import arena.asgi, arena.urls, runners.launcher, runners.catalog, runners.worker.actors\n"
        "print(*sys.modules)"
    )
    env = environment(tmp_path, DJANGO_SETTINGS_MODULE="arena.settings")
    command = (sys.executable, "-c", program)
    loaded = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    slow = {"torch", "triton", "scipy", "pandas", "statsmodels"}  # numpy takes 0.1 s: boards use it
    assert not slow & set(loaded.stdout.split())


class Arena:
    """A launched arena of one task, and what it says.

    Tests of published results load them into all tasks, which takes longer than all else here.
    """

    def __init__(self, home: Path) -> None:
        tasks = home.parent / "tasks"
        tasks.mkdir()
        home.mkdir()
        home.chmod(0o755)  # as an earlier version left it
        (home / "redis.url").write_text("redis://127.0.0.1:6379/0\n")
        (tasks / TASK).symlink_to(folder_of(ROOT / "tasks", TASK))
        self.env = environment(home, ARENA_TASKS=str(tasks))
        self.output = home.parent / "said.txt"
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                LAUNCH, env=self.env, cwd=ROOT, stdout=output, stderr=output
            )

    def said(self, pattern: str, seconds: float = 120) -> re.Match[str]:
        """Wait until it has said something."""

        def found() -> re.Match[str] | None:
            assert self.process.poll() is None, self.output.read_text()
            return re.search(pattern, self.output.read_text())

        return until(found, self.output.read_text, seconds)

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def member(self, words: str) -> psutil.Process:
        """Return the one descendant with `words` among the first three of its command."""
        found = []
        for process in self.family():
            with contextlib.suppress(psutil.NoSuchProcess):
                if words in " ".join(process.cmdline()[:3]):
                    found.append(process)
        (one,) = found
        return one

    def status(self, path: str = "/api/v1/tasks") -> int:
        connection = http.client.HTTPConnection("127.0.0.1", int(self.env["PORT"]), timeout=60)
        connection.request("GET", path)
        return connection.getresponse().status


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[Arena]:
    arena = Arena(tmp_path / "home")
    try:
        yield arena
    finally:
        arena.process.kill()
        arena.process.wait()


@pytest.mark.slow
def test_an_arena_comes_up_mends_itself_and_ends_with_all_that_it_started(arena: Arena) -> None:
    arena.said("open http://127.0.0.1:")
    assert arena.status() == 200
    sign_in = arena.said(r"to start runs, sign in once by http://127\.0\.0\.1:\d+(\S+)")[1]
    assert arena.status(sign_in) == 302
    home = Path(arena.env["ARENA_HOME"])
    assert f"an arena runs in {home} already" in refusal(home)
    arena.said("starting: build worker, ")
    files = ("", "arena.sqlite3", "redis.url", "logs", "logs/web-server.log", "valkey/socket")
    modes = {name: stat.S_IMODE((home / name).stat().st_mode) for name in files}
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
    assert arena.member("valkey-server").net_connections("inet") == []

    for name, words in (("web server", "arena.web_server"), ("valkey", "valkey-server")):
        arena.member(words).kill()
        arena.said(f"{name} ended with status 137")
        arena.said(f"{name} is started again")
    arena_url = (home / "redis.url").read_text()
    until(lambda: answers(arena), "an answer of the web server that was started again")

    started = 10  # five services and their shepherds
    until(lambda: len(arena.family()) >= started, "every service, started")
    family = arena.family()
    arena.process.send_signal(signal.SIGINT)
    assert arena.process.wait(60) == 0
    assert not any(process.is_running() for process in family)
    assert (home / "redis.url").read_text() == arena_url


def answers(arena: Arena) -> bool:
    try:
        return arena.status() == 200
    except OSError:
        return False


async def first_nudge(url: str) -> str:
    """Return the group of the first nudge that arrives after the connection's own."""
    arrived: asyncio.Queue[str] = asyncio.Queue()
    listener = asyncio.create_task(sockets.follow_nudges(url, arrived.put_nowait))
    try:
        async with asyncio.timeout(60), redis.asyncio.from_url(url) as sender:
            while not await sender.publish(sockets.CHANNEL, "a run"):
                assert not listener.done(), await listener
                await asyncio.sleep(0)
            assert await arrived.get() == sockets.BOARD
            return await arrived.get()
    finally:
        listener.cancel()


def test_embedded_valkey_answers_only_with_its_password(tmp_path: Path) -> None:
    home = tmp_path / "a home"
    home.mkdir()
    command = launcher.valkey_command(home)
    url = (home / "redis.url").read_text().strip()
    assert launcher.valkey_command(home) == command
    assert (home / "redis.url").read_text().strip() == url, "workers keep their address"
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        with redis.Redis.from_url(url, retry=Retry(ConstantBackoff(0.1), 100)) as client:
            assert client.set("queue", "1")
        other = redis.Redis(unix_socket_path=str(home / "valkey" / "socket"))
        with other, pytest.raises(redis.AuthenticationError):
            other.flushall()
        assert asyncio.run(first_nudge(url)) == "a run"
        broker = RedisBroker(url=url)
        broker.declare_queue("build")
        broker.enqueue(
            Message(queue_name="build", actor_name="build", args=(), kwargs={}, options={})
        )
        assert broker.client.llen("dramatiq:build") == 1
    finally:
        server.kill()
        server.wait()
    files = [home / "redis.url", home / "valkey" / "valkey.conf"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_keys_of_providers_reach_the_agents_worker_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "providers.toml").write_text(
        '[mine]\nbase_url = "https://models.example"\nwires = ["chat-completions"]\n'
        'key_variable = "MINE"\n'
    )
    secret = {
        "ANTHROPIC_API_KEY": "sk-a", "OPENAI_API_KEY": "sk-o", "MINE": "m", "HF_TOKEN": "hf",
        "CLAUDE_CODE_OAUTH_TOKEN": "t", "AWS_SECRET_ACCESS_KEY": "aws",
    }  # fmt: skip
    shared = {
        "SECRET_KEY": "django", "DATABASE_URL": "postgres://a:b@c/d", "PGPASSWORD": "pg",
        "REDIS_URL": "redis://x", "ALLOWED_HOSTS": "a.example", "LD_LIBRARY_PATH": "/cuda",
    }  # fmt: skip
    for name, value in {**secret, **shared}.items():
        monkeypatch.setenv(name, value)
    arena = launcher.Launcher(tmp_path, 0)
    found = {name: arena._service(name, ("true",))._env for name in ("web server", "valkey")}
    found |= {name: arena._service(name, ("true",))._env for name in launcher.WORKERS}
    assert {name for name, env in found.items() if secret.keys() & env.keys()} == {"agents worker"}
    for env in found.values():
        assert {**shared, "PATH": os.environ["PATH"]}.items() <= env.items()
    assert secret.items() <= found["agents worker"].items()
    (tmp_path / "providers.toml").write_text("no toml")
    assert "OPENAI_API_KEY" not in launcher.without_keys(tmp_path, os.environ)


def test_home_with_too_long_a_path_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(launcher.CannotStart, match="ARENA_HOME="):
        launcher.valkey_command(tmp_path / ("long" * 30))


@pytest.mark.slow
def test_a_killed_launcher_takes_everything_with_it(arena: Arena) -> None:
    arena.said("open http://127.0.0.1:")
    family = arena.family()
    arena.process.kill()
    arena.process.wait()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []
