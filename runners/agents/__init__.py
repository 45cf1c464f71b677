"""Agents. A module of this folder is an agent, and adding one is adding a module.

    from runners.agents import Spec

    SPECS = (Spec(slug="mine", title="Mine", description="Submits the starter source."),)

    def work(session, settings):
        session.message("One round is enough.")
        verdict = session.check("the starter source")

`session` is an AgentSession of `runners.session.session`. `python -m runners sync`, or a start of
the arena, finds the new module; a malformed one is left out with a message. Modules
and folders named `_*` are shared code. A module that calls a model also defines `HARNESS`. One
that has settings defines `Settings`, a pydantic model, from which forms and checks are made.
`work` cannot import `arena` or `evaluation`: its sandbox hides them.
"""

from __future__ import annotations

import importlib
import inspect
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
    from runners.session.session import AgentSession


SLUG = re.compile(r"[a-z][a-z0-9-]{0,99}")

_importing = threading.Lock()  # a worker starts several runs at a time


class BadAgent(Exception):
    """Raised for a malformed module of this folder; the message names it and the reason."""


@dataclass(frozen=True)
class Harness:
    """Needs of a module on its machine: a program, and the formats of a model provider."""

    title: str
    wires: tuple[str, ...] = ()
    """Wire formats of `runners.gateway.wire` that it can use, best first; empty without a model."""
    program: str = ""
    """Executable, searched in ARENA_HARNESSES and then on PATH; empty for none."""
    package: str = ""
    """Package that installs the program; its version is part of a run."""
    install: str = "make agents"
    """Command, or instruction, that installs the program."""


@dataclass(frozen=True)
class Spec:
    """One agent of the catalogue: an adapter with a model and settings.

    Raises: ValueError for values that the catalogue cannot hold.
    """

    slug: str
    title: str
    description: str
    model: str = ""
    provider: str = ""
    """Name in providers.toml of the provider that serves the model."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    tasks: Sequence[str] = ()
    """Slugs of its only tasks, or globs of them; empty for all."""
    kinds: Sequence[str] = ()
    """Its only device kinds; empty for all."""
    open_book: bool = False
    """Whether it gets reference solutions: shown for comparison, not ranked."""

    def __post_init__(self) -> None:
        for name in ("slug", "title", "description", "model", "provider"):
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
    defines `workspace_files(root, operator, track)`, which runs outside the sandbox. It returns
    their texts by path, from the operator's folder under `root`.
    """

    SPECS: tuple[Spec, ...]
    """Optional further names are `HARNESS: Harness` and `Settings: type[pydantic.BaseModel]`."""

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


def harness(adapter: str) -> Harness:
    """Return the needs of an adapter; without `HARNESS` it needs nothing. Raises as `load` does."""
    module = load(adapter)
    found: Harness = getattr(module, "HARNESS", None) or Harness(module.SPECS[0].title)
    return found


def settings_schema(adapter: str) -> dict[str, Any]:
    """Return the JSON Schema of an adapter's settings; empty for one that does not check them."""
    model = getattr(load(adapter), "Settings", None)
    schema: dict[str, Any] = model.model_json_schema() if model else {}
    return schema


def workspace_files(adapter: str, root: Path, operator: str, track: str) -> Mapping[str, str]:
    """Return the files that an agent gets beyond the task's own, by path.

    `root` is the folder of tasks that has the operator.
    """
    find = getattr(load(adapter), "workspace_files", None)
    files: Mapping[str, str] = find(root, operator, track) if find else {}
    return files


def _other_parameters(work: Any) -> str:
    """Return the parameters of a `work` that takes no session and settings; empty if it does."""
    try:
        signature = inspect.signature(work)
    except ValueError:  # of a callable that has none
        return ""
    try:
        signature.bind(None, None)
    except TypeError:
        return str(signature)
    return ""


def _problem_of(module: Any) -> str:
    """Return the reason why a module is malformed; empty if it is not."""
    specs = getattr(module, "SPECS", ())
    if not (isinstance(specs, tuple) and specs and all(isinstance(spec, Spec) for spec in specs)):
        return "an agent has SPECS, a tuple of Spec"
    if not callable(getattr(module, "work", None)):
        return "an agent has work(session, settings)"
    if parameters := _other_parameters(module.work):
        return f"work takes {parameters}; it is called as work(session, settings)"
    if not isinstance(getattr(module, "HARNESS", Harness("")), Harness):
        return "HARNESS is a Harness"
    if not hasattr(getattr(module, "Settings", None), "model_json_schema") and hasattr(
        module, "Settings"
    ):
        return "Settings is a pydantic model"
    slugs = [spec.slug for spec in specs]
    twice = next((slug for slug in slugs if slugs.count(slug) > 1), None)
    return f"two of its SPECS have the slug {twice!r}" if twice else ""
