"""What a profiler is. A module of this folder is one, and says where in the order it is tried."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol, cast

from evaluation.profiling.facts import KernelProfile


class Tool(Protocol):
    """A module of this folder: outside the walls `absent`, `title`, `command`, `readable` and
    `read`; inside, around the launches, `watch`.
    """

    ORDER: int
    LAUNCHES: int
    """How many launches are watched; each has memory of its own, as far as CACHE_BYTES need it."""

    def absent(self) -> str:
        """Why this machine cannot use it; empty when it may."""

    def title(self) -> str:
        """What it is called, with its version."""

    def command(self) -> Sequence[str]:
        """What to put before the command that is profiled."""

    def readable(self) -> Sequence[str]:
        """The folders that it needs to read."""

    def watch(self, launches: Callable[[], None]) -> Mapping[str, Any]:
        """In the process that is profiled: run `launches` under it. Returns plain data."""

    def read(self, said: str, answer: Mapping[str, Any]) -> list[KernelProfile]:
        """Every call that it saw, in what was said and in what `watch` returned: a stranger's words
        both. Raises Unprofiled where it was not let.
        """


@cache
def tools() -> dict[str, Tool]:
    """Every profiler by name, in the order in which they are tried."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    modules = {name: cast(Tool, importlib.import_module(f"{__name__}.{name}")) for name in names}
    return dict(sorted(modules.items(), key=lambda item: item[1].ORDER))
