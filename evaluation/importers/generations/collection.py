"""Collections: the description of one is a TOML file of `collections/`, with facts alone.

A description names the commit that was read. A folder is recognised by having that commit; any
other folder is read as runs of KernelBench.
"""

from __future__ import annotations

import importlib
import pkgutil
import tomllib
from collections.abc import Iterator, Mapping
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
        return {
            "title": self.title,
            "address": self.address,
            "commit": self.commit,
            "licence": self.licence,
        }

    def generations(self, tree: Tree) -> Iterator[Generation]:
        """Yield the generations in these files, in the order of the parts. Raises RequestError."""
        for part in self.parts:
            if part.layout not in known_layouts():
                raise RequestError(f"{self.slug}: there is no layout {part.layout!r}")
            yield from known_layouts()[part.layout].generations(self.slug, part, tree)


class Layout(Protocol):
    """A module of `layouts/`: one form in which generations are published."""

    def generations(self, collection: str, part: Part, tree: Tree) -> Iterator[Generation]:
        """Yield the generations of a part, always in the same order."""


@cache
def known_layouts() -> Mapping[str, Layout]:
    """Return the layouts by name."""
    names = [module.name for module in pkgutil.iter_modules(layouts.__path__)]
    prefix = layouts.__name__
    return {name: cast(Layout, importlib.import_module(f"{prefix}.{name}")) for name in names}


def read_description(path: Path) -> Collection:
    """Return the collection of a TOML file. Raises RequestError naming the file."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        parts = tuple(_part(each, data.get("suite", "")) for each in data.pop("part"))
        title, address, commit, licence = (
            str(data[name]) for name in ("title", "address", "commit", "licence")
        )
        return Collection(path.stem, title, address, commit, licence, parts)
    except (KeyError, ValueError, TypeError) as error:
        raise RequestError(f"{path}: {type(error).__name__}: {error}") from error


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
