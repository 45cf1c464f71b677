"""What an agent is: how it is offered and how it works. A module of this folder is an agent."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from runners.agent.session import AgentSession


SLUG = re.compile(r"[a-z][a-z0-9-]{0,99}")

_importing = threading.Lock()  # a worker begins several runs at a time


class BadAgent(Exception):
    """A module of this folder that is no agent; the message says which, and why."""


@dataclass(frozen=True)
class Spec:
    """One agent of the catalogue: an adapter with a model and settings. Others are other agents.

    Raises ValueError for what the catalogue could not hold.
    """

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

    def __post_init__(self) -> None:
        for name in ("slug", "title", "description", "model"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} should be a text: {getattr(self, name)!r}")
        if not SLUG.fullmatch(self.slug):
            raise ValueError(f"a slug is a letter, then a-z, 0-9 and -: {self.slug!r}")
        for name in ("tasks", "kinds"):
            texts = getattr(self, name)
            if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
                raise ValueError(f"{name} of {self.slug} should be a list of texts: {texts!r}")
        if not isinstance(self.settings, Mapping):
            raise ValueError(f"settings of {self.slug} should be an object: {self.settings!r}")
        try:
            json.dumps(dict(self.settings), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"settings of {self.slug} are not JSON: {error}") from error


class Agent(Protocol):
    """A module of this folder: what it offers, and how it works at a desk.

    One that is given more than others may also define `answers(folder, track)`: further files of
    its workspace by path, from the operator's folder. It is asked outside the sandbox.

    `work` runs in a process of its own behind the sandbox, with nothing but the desk. It returns
    when the agent has no more to do; what it raises ends the agent and shows in the run.
    """

    SPECS: tuple[Spec, ...]

    def work(self, session: AgentSession, settings: Mapping[str, Any]) -> None: ...


def names() -> list[str]:
    """The modules there are now, by name; none is imported."""
    importlib.invalidate_caches()
    found = {module.name for module in pkgutil.iter_modules(__path__)}
    return sorted(name for name in found if not name.startswith("_"))


def path_of(name: str) -> str:
    """Where the module of that name is, as messages say it."""
    return f"runners/agents/{name}.py"


def load(name: str) -> Agent:
    """The agent of that module as its file is now, however often it was loaded before.

    Raises LookupError where there is none, and BadAgent.
    """
    if name not in names():
        raise LookupError(f"there is no adapter {name!r} here")
    try:
        with _importing:
            sys.modules.pop(f"{__name__}.{name}", None)
            agent: Any = importlib.import_module(f"{__name__}.{name}")
    except (Exception, SystemExit) as error:
        raise BadAgent(f"{path_of(name)}: {type(error).__name__}: {error}") from error
    if problem := _problem_of(agent):
        raise BadAgent(f"{path_of(name)}: {problem}")
    found: Agent = agent
    return found


def given(adapter: str, folder: Path, track: str) -> Mapping[str, str]:
    """The files that an agent is given besides the task's own, by path; none for most."""
    ask = getattr(load(adapter), "answers", None)
    files: Mapping[str, str] = ask(folder, track) if ask else {}
    return files


def _problem_of(module: Any) -> str:
    """Why a module is no agent; empty if it is one."""
    specs = getattr(module, "SPECS", ())
    if not (isinstance(specs, tuple) and specs and all(isinstance(spec, Spec) for spec in specs)):
        return "an agent has SPECS, a tuple of Spec"
    if not callable(getattr(module, "work", None)):
        return "an agent has work(desk, settings)"
    slugs = [spec.slug for spec in specs]
    twice = next((slug for slug in slugs if slugs.count(slug) > 1), None)
    return f"two of its SPECS have the slug {twice!r}" if twice else ""
