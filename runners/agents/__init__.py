"""What an agent is: how it is offered and how it works. A module of this folder is an agent."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from runners.desk import Desk


@dataclass(frozen=True)
class Spec:
    """One agent of the catalogue: an adapter with a model and settings. Others are other agents."""

    slug: str
    title: str
    description: str
    model: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


class Agent(Protocol):
    """A module of this folder: what it offers, and how it works at a desk.

    `work` runs in a process of its own behind the sandbox, with nothing but the desk. It returns
    when the agent has no more to do; what it raises ends the agent and shows in the run.
    """

    SPECS: tuple[Spec, ...]

    def work(self, desk: Desk, settings: Mapping[str, Any]) -> None: ...


@cache
def agents() -> dict[str, Agent]:
    """Every adapter by name."""
    return {
        module.name: importlib.import_module(f"{__name__}.{module.name}")
        for module in pkgutil.iter_modules(__path__)
        if not module.name.startswith("_")
    }
