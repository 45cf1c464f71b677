"""Collections: the description of one is a TOML file of `collections/`, with facts alone.

A description names the commit that was read. A folder is recognised by having that commit; any
other folder is read as runs of KernelBench.
"""

from __future__ import annotations

import importlib
import pkgutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

from evaluation.errors import RequestError
from evaluation.importers.generations import layouts
from evaluation.importers.generations.generation import Generation
from evaluation.importers.generations.part import Part
from evaluation.importers.generations.tree import FolderTree, GitTree, Tree, has_commit

DESCRIPTIONS = Path(__file__).with_name("collections")
FACTS = ("title", "address", "commit", "licence")
"""Fields of every description."""
NO_DESCRIPTION = {"layout": "runs", "paths": ["*level_*_problem_*_kernel.py"]}
"""The part of a folder that no description knows."""


@dataclass(frozen=True)
class Collection:
    """Somebody's published generations, at one commit."""

    slug: str
    title: str
    address: str
    commit: str
    licence: str
    parts: tuple[Part, ...]

    def facts(self) -> dict[str, str]:
        """Return the facts of the collection for the head of a file of records."""
        return {name: getattr(self, name) for name in FACTS}

    def generations(self, tree: Tree) -> Iterator[Generation]:
        """Yield the generations in these files, in the order of the parts. Raises RequestError."""
        for part in self.parts:
            yield from _layout(self.slug, part.layout).generations(self.slug, part, tree)


class Layout(Protocol):
    """A module of `layouts/`: one form in which generations are published."""

    REQUIRED: tuple[str, ...]
    """Options that a part must have."""

    def generations(self, collection: str, part: Part, tree: Tree) -> Iterator[Generation]:
        """Yield the generations of a part, always in the same order."""


@cache
def known_layouts() -> Mapping[str, Layout]:
    """Return the layouts by name."""
    names = [module.name for module in pkgutil.iter_modules(layouts.__path__)]
    prefix = layouts.__name__
    return {name: cast(Layout, importlib.import_module(f"{prefix}.{name}")) for name in names}


def _layout(place: str, name: str) -> Layout:
    """Return the layout of a name. Raises RequestError, which opens with the place."""
    if layout := known_layouts().get(name):
        return layout
    known = ", ".join(sorted(known_layouts()))
    raise RequestError(f"{place}: there is no layout {name!r}; there are {known}")


def read_description(path: Path) -> Collection:
    """Return the collection of a TOML file. Raises RequestError naming the file."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RequestError(f"{path}: {error}; write it as TOML") from error
    _require(str(path), data, (*FACTS, "part"))
    given = data["part"]
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise RequestError(f"{path}: `part` is no list of tables; begin each by [[part]]")
    for number, each in enumerate(given, 1):
        place = f"{path}: part {number}"
        _require(place, {**data, **each}, ("layout", "suite"))
        _require(place, each, _layout(place, str(each["layout"])).REQUIRED)
    parts = tuple(_part(each, data.get("suite", "")) for each in given)
    facts = {name: str(data[name]) for name in FACTS}
    return Collection(path.stem, **facts, parts=parts)


def _require(place: str, data: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise RequestError for the first of these fields that is missing."""
    if missing := next((name for name in names if name not in data), None):
        raise RequestError(f"{place}: the field `{missing}` is missing; add it")


def _part(data: Mapping[str, Any], suite: str) -> Part:
    own = {"layout", "suite", "model", "hardware", "baseline"}
    given = {name: str(value) for name, value in data.items() if name in own}
    options = {name: value for name, value in data.items() if name not in own}
    return Part(**{"suite": suite, **given}, options=options)


@cache
def descriptions() -> tuple[Collection, ...]:
    """Return the described collections, sorted by name."""
    return tuple(read_description(path) for path in sorted(DESCRIPTIONS.glob("*.toml")))


def open_folder(folder: Path, suite: str, model: str) -> tuple[Collection, Tree]:
    """Return the collection of a folder, and its files. Raises RequestError.

    `suite` and `model` are those of a folder without a description.
    """
    if not folder.is_dir():
        raise RequestError(f"{folder}: no such folder; name one with generations")
    for found in descriptions():
        if has_commit(folder, found.commit):
            return found, GitTree(folder, found.commit, found.address)
    part = _part({**NO_DESCRIPTION, "model": model}, suite)
    name = folder.resolve().name
    return Collection(name, name, "", "", "", (part,)), FolderTree(folder)
