"""Files of a collection: those of a Git commit, without a work tree, or those of a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import NoReturn, Protocol
from urllib.parse import quote

from evaluation.errors import RequestError
from evaluation.importers.git import git

_LINK = "120000"
_ENTRY = re.compile(r"(100644|100755|120000) blob ([0-9a-f]{40,64})\t(.+)", re.DOTALL)


class Tree(Protocol):
    """Read-only files by path."""

    @property
    def paths(self) -> list[str]:
        """Return the paths of all files, sorted."""

    def read(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the texts of files. Raises RequestError for a path that is not there."""

    def address(self, path: str) -> str:
        """Return the address under which a person can open a file."""


@dataclass(frozen=True)
class GitTree:
    """The files of a commit."""

    folder: Path
    commit: str
    home: str

    @cached_property
    def _blobs(self) -> Mapping[str, str]:
        """Hashes of files by path; of a link inside the commit, that of the file it leads to."""
        listed = git(self.folder, "ls-tree", "-r", "-z", self.commit).decode(errors="replace")
        found = [match for entry in listed.split("\0") if (match := _ENTRY.fullmatch(entry))]
        blobs = {match[3]: match[2] for match in found if match[1] != _LINK}
        links = {match[3]: match[2] for match in found if match[1] == _LINK}
        for path, target in zip(links, self._contents(links.values()), strict=True):
            to = normpath(join(dirname(path), target.decode(errors="replace")))
            if to in blobs:
                self._links[path] = to
        return {**blobs, **{path: blobs[to] for path, to in self._links.items()}}

    @cached_property
    def _links(self) -> dict[str, str]:
        return {}

    @property
    def paths(self) -> list[str]:
        return sorted(self._blobs)

    def read(self, paths: Iterable[str]) -> dict[str, str]:
        wanted = list(paths)
        for path in wanted:
            if path not in self._blobs:
                raise RequestError(f"{self.folder}: {path} is not in {self.commit[:12]}")
        contents = self._contents(self._blobs[path] for path in wanted)
        return {
            path: content.decode(errors="replace")
            for path, content in zip(wanted, contents, strict=True)
        }

    def _contents(self, hashes: Iterable[str]) -> Iterator[bytes]:
        """Yield the contents of blobs, in order."""
        wanted = list(hashes)
        output = git(self.folder, "cat-file", "--batch", asked="".join(f"{h}\n" for h in wanted))
        at = 0
        for _ in wanted:
            end = output.index(b"\n", at)
            size = int(output[at:end].split()[2])
            yield output[end + 1 : end + 1 + size]
            at = end + 1 + size + 1

    def address(self, path: str) -> str:
        return f"{self.home}/blob/{self.commit}/{quote(self._links.get(path, path))}"


@dataclass(frozen=True)
class FolderTree:
    """The files of a folder as they are."""

    folder: Path

    @cached_property
    def paths(self) -> list[str]:
        """The files. Raises RequestError for a folder that cannot be read."""
        walked = os.walk(self.folder, onerror=_refuse)
        found = (Path(place, name) for place, _, names in walked for name in names)
        paths = (each.relative_to(self.folder).as_posix() for each in found if each.is_file())
        return sorted(path for path in paths if not path.startswith(".git/"))

    def read(self, paths: Iterable[str]) -> dict[str, str]:
        texts = {}
        for path in paths:
            try:
                texts[path] = (self.folder / path).read_bytes().decode(errors="replace")
            except OSError as error:
                raise RequestError(f"{self.folder / path}: {error.strerror}") from error
        return texts

    def address(self, path: str) -> str:
        return path


def _refuse(error: OSError) -> NoReturn:
    raise RequestError(f"{error.filename}: {error.strerror}; make it readable, or remove it")


def has_commit(folder: Path, commit: str) -> bool:
    """Return whether a folder is a Git repository, with or without work tree, with this commit."""
    try:
        return git(folder, "cat-file", "-t", commit).strip() == b"commit"
    except RequestError:
        return False
