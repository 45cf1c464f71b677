"""Seconds of processor time of each test file, its processes included.

`--costs=FILE` writes and prints them; without `=`, pytest would take an old file for a test. A file
above MAX_SECONDS needs a line of reason in tests/costs.toml. Above twice that the run fails without
one: a processor at a low clock rate takes nearly that much longer. What lost its parent before it
ended is in no file's seconds. A run of the tests that failed last is left out.
"""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.processes import descendants

MAX_SECONDS = 30
MIN_PRINTED_SECONDS = 2
REASONS = Path(__file__).with_name("costs.toml")
WORKERS_KEY = "costs"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", type=Path, help="write the processor time of each test file here")
    text = "seconds above which a file needs a reason"
    parser.addoption("--max-cost", type=float, default=MAX_SECONDS, help=text)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs(config), "costs")


def reasons() -> Mapping[str, str]:
    """Return why files may take long, by their path."""
    found: Mapping[str, str] = tomllib.loads(REASONS.read_text())["reasons"]
    return found


def used() -> float:
    """Return the seconds of processor time of this process and all below it."""
    return sum(os.times()[:4]) + sum(each.processor_seconds for each in descendants(os.getpid()))


class Costs:
    """Adds up what each file takes, where the next test is one of another file."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.path = None if config.getoption("lf", False) else config.option.costs
        self.limit: float = config.option.max_cost
        self.seconds: Counter[str] = Counter()
        self.before = 0.0

    def pytest_collection_finish(self) -> None:
        self.before = used()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, bool, bool]:
        done = yield
        if nextitem is None or nextitem.path != item.path:
            now = used()
            self.seconds[item.nodeid.partition("::")[0]] += max(now - self.before, 0.0)
            self.before = now
        return done

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput[WORKERS_KEY] = dict(self.seconds)
        elif self.path and self.unexplained(2 * self.limit) and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.seconds.update(getattr(node, "workeroutput", {}).get(WORKERS_KEY, {}))

    def unexplained(self, limit: float) -> list[str]:
        """Return the files that take longer than a limit without a reason."""
        known = reasons()
        return [f for f, seconds in self.seconds.items() if seconds > limit and f not in known]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not (path := self.path):
            return
        lines = [f"{seconds:7.1f}  {file}" for file, seconds in self.seconds.most_common()]
        total = f"{self.seconds.total():7.1f}  in {len(lines)} files"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*lines, total, ""]))
        terminalreporter.section(f"seconds of processor time, also in {path}")
        shown = [line for line in lines if float(line.split()[0]) >= MIN_PRINTED_SECONDS]
        terminalreporter.write_line("\n".join([*shown, total]))
        for file in self.unexplained(self.limit):
            terminalreporter.write_line(
                f"{file} takes more than {self.limit:g} s: make it cheaper, or give the reason"
                f" in {REASONS.name}",
                red=True,
            )
