"""Benches: each is one device of this machine, which measures one thing at a time.

A judge stays for the verdicts that follow: importing its modules, and starting the process from
which candidates are forked, takes seconds.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evaluation.bench.devices.locks import locked
from runners.process.supervisor import Child, Ended, Ending, stopping

OnLines = Callable[[list[str]], None]
POLL_SECONDS = 0.2
CORES = "cores-"
"""Beginning of the name of a CPU as a device."""
TURNS = 50
"""Verdicts of one judge, so that what it leaks is bounded."""


@dataclass
class Bench:
    """One device.

    `lock` is its unique name on this machine, such as a GPU's UUID; without one other processes are
    not excluded. `environment` is added to a judge's.
    """

    lock: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    cores: frozenset[int] = frozenset()
    """Cores for judges; empty for all."""
    shared: bool = False
    """Whether others may hold `lock` in this way too."""
    max_turns: int = TURNS
    ours: bool = True
    """True where this process measures on the device: it holds it, and it is not taken out."""
    _judge: Child | None = None
    """The judge that waits for its next turn."""
    _turns: int = 0
    """Turns that it had."""

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Hold the device for this thread, whose children run on its cores."""
        with ExitStack() as stack:
            if self.lock and not locked(self.lock, stack, self.shared):
                yield False
                return
            if self.cores:
                # Linux: the affinity of a thread is its own, and its children inherit it.
                stack.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
                os.sched_setaffinity(0, self.cores)
            yield True

    def answer(
        self,
        request: str,
        start: Callable[[Mapping[str, str], OnLines], Child],
        on_message: Callable[[dict[str, Any]], None],
        *,
        deadline: float,
        heartbeat: Callable[[], bool] = lambda: True,
    ) -> Ended:
        """Pass on the answers to a request, a JSON line, by the judge that waits here or a new one.

        `start` gets additions to the environment of a new judge, and the receiver of its lines. The
        exit code of the result is that of the request: the judge itself stays for the next one.
        """
        codes: list[int] = []

        def receive(lines: list[str]) -> None:
            for message in map(json.loads, lines):
                match message["type"]:
                    case "ready":
                        judge.ask(request)
                    case "end":
                        codes.append(message["code"])
                    case _:
                        on_message(message)

        waiting, self._judge = self._judge, None
        if waiting and waiting.alive:
            judge, judge.on_lines = waiting, receive
            judge.ask(request)
        else:
            judge, self._turns = start(self.environment, receive), 0
        ended = judge.follow(
            deadline=lambda: deadline, heartbeat=heartbeat, answered=lambda: bool(codes)
        )
        if ended.ending is not Ending.ANSWERED:
            return ended
        self._judge, self._turns = judge, self._turns + 1
        if self._turns >= self.max_turns:
            self.clear()
        return replace(ended, ending=Ending.EXITED, code=codes[0])

    def clear(self) -> None:
        """End the judge that waits."""
        child, self._judge, self._turns = self._judge, None, 0
        if child:
            child.end()


def of_processor(home: Path, shared: bool = False) -> Bench:
    """Return the bench of the CPU, which needs all cores of an arena's machine for itself."""
    return Bench(f"{CORES}{hashlib.sha256(bytes(home.resolve())).hexdigest()[:16]}", shared=shared)


def beside_processor(home: Path) -> Bench:
    """Return a place for work that loads the cores, while nothing is measured on them."""
    return of_processor(home, shared=True)


def processor_is_measured(home: Path) -> bool:
    """Return whether something is measured on the cores of an arena's machine now."""
    with beside_processor(home).held() as free:
        return not free


here: dict[str, Sequence[Bench]] = {}
"""Benches of this process by hardware slug."""


def clear_here() -> None:
    """End the judges that wait on the benches of this process, and forget the benches."""
    for bench in itertools.chain.from_iterable(here.values()):
        bench.clear()
    here.clear()


@contextmanager
def taken(
    benches: Sequence[Bench], pause: Callable[[float], object] = stopping.wait
) -> Iterator[Bench | None]:
    """Wait for one of `benches` and hold it; None when this process stops or has none of them.

    `pause` waits between two tries.
    """
    while not stopping.is_set() and (ours := [each for each in benches if each.ours]):
        for bench in ours:
            with bench.held() as got:
                if got:
                    yield bench
                    return
        pause(POLL_SECONDS)
    yield None


@contextmanager
def bench_of(model: type[Any], pk: int) -> Iterator[Bench | None]:
    """Hold a bench of the hardware of a row, as `taken` does.

    Where this process has none of that hardware, the bench is a new one that excludes nobody.
    """
    row = model._default_manager.filter(pk=pk)
    slug = row.values_list("hardware__slug", flat=True).first()
    benches = here.get(slug or "")
    with taken(benches or [Bench()]) as bench:
        yield bench
        if bench is not None and not benches:
            bench.clear()
