"""Profilers. A module of this folder is one, with its place in the order of trials."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol, cast

from evaluation.types import KernelProfile


class Tool(Protocol):
    """A module of this folder. `watch` runs inside the sandbox, all else outside."""

    ORDER: int
    LAUNCHES: int
    """Number of profiled launches, each with its own buffers as far as RING_BYTES requires it."""

    def absent(self) -> str:
        """Return why this machine cannot use the tool; empty when it can."""

    def title(self) -> str:
        """Return the tool's name and version."""

    def command(self) -> Sequence[str]:
        """Return the words to put before the profiled command."""

    def readable(self) -> Sequence[str]:
        """Return the folders that the tool must read."""

    def watch(self, launches: Callable[[], None]) -> Mapping[str, Any]:
        """Run `launches` under the tool, in the profiled process. Return plain data."""

    def read(self, output: str, answer: Mapping[str, Any]) -> list[KernelProfile]:
        """Return every call in the untrusted output and in the answer of `watch`.

        Raises: Unprofiled where the tool was not permitted.
        """


@cache
def tools() -> dict[str, Tool]:
    """Return every profiler by name, in the order of trials."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    modules = {name: cast(Tool, importlib.import_module(f"{__name__}.{name}")) for name in names}
    return dict(sorted(modules.items(), key=lambda item: item[1].ORDER))
