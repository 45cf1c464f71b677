"""Hosts of task code: each thread that judges or builds has its own."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from evaluation.tasks.task_code import code_of, hosted

SECONDS = 60.0


def named(name: str) -> Any:
    """Return a host that answers with its name in the place of code."""
    return lambda operator, device: name


def test_thread_has_its_own_host_while_others_come_and_go() -> None:
    both, one_left = threading.Barrier(2, timeout=SECONDS), threading.Event()

    def first() -> list[Any]:
        with hosted(named("first")):
            both.wait()
            found = [code_of(None)]
            assert one_left.wait(SECONDS)
            return [*found, code_of(None)]

    def second() -> list[Any]:
        with hosted(named("second")):
            both.wait()
            found = [code_of(None)]
        one_left.set()
        return found

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(first), pool.submit(second)]
        assert [each.result(SECONDS) for each in futures] == [["first", "first"], ["second"]]


def test_host_goes_with_a_copied_context_and_ends_with_its_block() -> None:
    with ThreadPoolExecutor(1) as pool, hosted(named("outer")):
        with hosted(named("inner")):
            context = copy_context()
            assert pool.submit(context.run, code_of, None).result(SECONDS) == "inner"
        assert code_of(None) == "outer"
