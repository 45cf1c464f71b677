"""Agents. A module of this folder is an agent, and adding one is adding a module.

    from runners.agents import Spec

    SPECS = (Spec(slug="mine", title="Mine", description="Submits the starter source."),)

    def work(session, settings):
        session.message("One round is enough.")
        verdict = session.check("the starter source")

`session` is an AgentSession of `runners.agent.session`. `python -m runners sync`, or a start of the
arena, finds the new module; one that cannot be imported is left out with a message. Modules named
`_*` are shared code. `work` cannot import `arena` or `evaluation`: its sandbox hides them.
"""

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

_importing = threading.Lock()  # a worker starts several runs at a time


class BadAgent(Exception):
    """Raised for a malformed module of this folder; the message names it and the reason."""


@dataclass(frozen=True)
class Spec:
    """One agent of the catalogue: an adapter with a model and settings.

    Raises: ValueError for values that the catalogue cannot hold.
    """

    slug: str
    title: str
    description: str
    model: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    tasks: Sequence[str] = ()
    """Slugs of its only tasks, or globs of them; empty for all."""
    kinds: Sequence[str] = ()
    """Its only device kinds; empty for all."""
    open_book: bool = False
    """Whether it gets reference solutions: shown for comparison, not ranked."""

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
    """A module of this folder.

    `work` runs in a sandboxed process of its own, with only the session. It returns when the agent
    is done; an exception ends the agent and shows in the run. An agent that gets further files also
    defines `workspace_files(folder, track)`, which runs outside the sandbox. It returns their texts
    by path, from the operator's folder.
    """

    SPECS: tuple[Spec, ...]

    def work(self, session: AgentSession, settings: Mapping[str, Any]) -> None: ...


def names() -> list[str]:
    """Return the names of the modules, without importing any."""
    importlib.invalidate_caches()
    found = {module.name for module in pkgutil.iter_modules(__path__)}
    return sorted(name for name in found if not name.startswith("_"))


def path_of(name: str) -> str:
    """Return the path of a module for messages."""
    return f"runners/agents/{name}.py"


def load(name: str) -> Agent:
    """Return the agent of a module, read anew from its file.

    Raises: LookupError where there is none, BadAgent.
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


def workspace_files(adapter: str, folder: Path, track: str) -> Mapping[str, str]:
    """Return the files that an agent gets beyond the task's own, by path."""
    find = getattr(load(adapter), "workspace_files", None)
    files: Mapping[str, str] = find(folder, track) if find else {}
    return files


def _problem_of(module: Any) -> str:
    """Return the reason why a module is malformed; empty if it is not."""
    specs = getattr(module, "SPECS", ())
    if not (isinstance(specs, tuple) and specs and all(isinstance(spec, Spec) for spec in specs)):
        return "an agent has SPECS, a tuple of Spec"
    if not callable(getattr(module, "work", None)):
        return "an agent has work(session, settings)"
    slugs = [spec.slug for spec in specs]
    twice = next((slug for slug in slugs if slugs.count(slug) > 1), None)
    return f"two of its SPECS have the slug {twice!r}" if twice else ""
