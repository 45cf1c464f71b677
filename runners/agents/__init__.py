"""What an agent is: how it is offered and how it works. A module of this folder is an agent."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
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
    tasks: Sequence[str] = ()
    """Slugs of the only tasks that it works on, or globs of them; none for all."""
    kinds: Sequence[str] = ()
    """The only kinds of device for which it works; none for all."""
    open_book: bool = False
    """It is given answers: shown for comparison, not ranked."""


class Agent(Protocol):
    """A module of this folder: what it offers, and how it works at a desk.

    One that is given more than others may also define `answers(folder, track)`: further files of
    its workspace by path, from the operator's folder. It is asked outside the sandbox.

    `work` runs in a process of its own behind the sandbox, with nothing but the desk. It returns
    when the agent has no more to do; what it raises ends the agent and shows in the run.
    """

    SPECS: tuple[Spec, ...]

    def work(self, desk: Desk, settings: Mapping[str, Any]) -> None: ...


def given(adapter: str, folder: Path, track: str) -> Mapping[str, str]:
    """The files that an agent is given besides the task's own, by path; none for most."""
    ask = getattr(agents().get(adapter), "answers", None)
    files: Mapping[str, str] = ask(folder, track) if ask else {}
    return files


@cache
def agents() -> dict[str, Agent]:
    """Every adapter by name."""
    return {
        module.name: importlib.import_module(f"{__name__}.{module.name}")
        for module in pkgutil.iter_modules(__path__)
        if not module.name.startswith("_")
    }
