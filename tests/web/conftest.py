"""Fixtures: a real server on a free port, a headless Chromium and a world of runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from tests.conftest import free_port, skip_or_fail
from tests.waiting import PATIENCE_SECONDS, until
from tests.web.world import World

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
CHROMIUM_ARGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync "
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup"
).split()
"""The features are lists below the address bar, for which each context starts a process more."""
TIMEOUT_MS = 60_000
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


class Server:
    """Daphne in a separate process, which a test can kill and restart."""

    def __init__(
        self, environment: dict[str, str], log: Path, prefix: str = "", options: Sequence[str] = ()
    ) -> None:
        self.prefix = prefix
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = environment
        self.log = log
        self.options = options

    def start(self) -> None:
        address = ["-b", "127.0.0.1", "-p", str(self.port)]
        command = [sys.executable, "-m", "arena.web_server", *address, *self.options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        until(self.answers, lambda: f"daphne's start: {self.log.read_text()[-2000:]}", 120)

    def answers(self) -> bool:
        page = f"{self.url}{self.prefix}/methodology/"
        try:
            urllib.request.urlopen(page, timeout=PATIENCE_SECONDS).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class InThread:
    """Calls the functions of `target` in another thread; Playwright runs a loop in this one."""

    def __init__(self, target: Any, thread: ThreadPoolExecutor) -> None:
        self.target, self.thread = target, thread

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.target, name)
        return lambda *args, **more: self.thread.submit(function, *args, **more).result()


@pytest.fixture
def in_thread(db: None) -> Iterator[Callable[[Any], Any]]:
    with ThreadPoolExecutor(1) as thread:
        yield lambda target: InThread(target, thread)
        thread.submit(connections.close_all).result()


def environment_of(folder: Path, valkey: str, repository: Path) -> dict[str, str]:
    """Return the environment of a web server with this process's database and an own home."""
    return os.environ | {
        "DATABASE_URL": f"sqlite:///{connections['default'].settings_dict['NAME']}",
        "REDIS_URL": valkey,
        "ARENA_HOME": str(folder / "home"),
        "PYTHONPATH": str(repository),
    }


@pytest.fixture
def one_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock, since attempts are counted anew in each period."""
    now = time.time()  # waits: a clock that stands
    monkeypatch.setattr(time, "time", lambda: now)


@pytest.fixture(scope="module")
def server(
    django_db_setup: None, valkey: str, tmp_path_factory: pytest.TempPathFactory, repository: Path
) -> Iterator[Server]:
    """Start one Daphne for the tests of a module; each test begins with an empty database."""
    folder = tmp_path_factory.mktemp("server")
    running = Server(environment_of(folder, valkey, repository), folder / "daphne.log")
    running.start()
    yield running
    running.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start one Chromium for the tests of a module.

    Playwright runs an event loop in this thread, in which Django would refuse database access.
    """
    if not shutil.which(CHROMIUM):
        skip_or_fail(f"no Chromium at {CHROMIUM}")
    from playwright.sync_api import sync_playwright

    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any, server: Server) -> Iterator[Callable[..., Any]]:
    """Open an address; `page.console_errors` collects errors and warnings of the console."""
    contexts: list[Any] = []

    def open_at(path: str, viewport: dict[str, int] = DESK, **more: Any) -> Any:
        context = browser.new_context(viewport=viewport, **more)
        context.set_default_timeout(TIMEOUT_MS)
        contexts.append(context)
        page = context.new_page()
        page.console_errors = []
        page.on("pageerror", lambda error: page.console_errors.append(str(error)))
        page.on(
            "console",
            lambda line: (
                line.type in ("error", "warning") and page.console_errors.append(line.text)
            ),
        )
        page.goto(server.url + path)
        return page

    yield open_at
    for context in contexts:
        context.close()


@pytest.fixture
def world(db: None) -> World:
    built = World()
    built.build()
    return built


@pytest.fixture
def served_world(server: Server, in_thread: Callable[[Any], Any]) -> Any:
    """Build a world that the real server serves."""
    built = in_thread(World())
    built.build()
    return built
