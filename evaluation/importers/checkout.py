"""Checkouts of suites: their commit, and files whose bytes are those of the commit."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluation.errors import RequestError
from evaluation.importers.git import git
from evaluation.sandbox import untrusted_files

MAX_FILE_BYTES = 1 << 20
LICENCES = ("LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE", "COPYING")
_ENTRY = re.compile(r"100(?:644|755) blob ([0-9a-f]{40,64})\t([^\0]+)")
_HOME = re.compile(r"(?:https://|ssh://git@|git@)([\w.-]+)[:/]([\w./-]+?)(?:\.git)?/?")


class BadFile(Exception):
    """Raised for a file that is not as the commit has it; the message is a predicate."""


@dataclass(frozen=True)
class Checkout:
    """A work tree with its commit. `blobs` are the hashes of its files in that commit."""

    root: Path
    repository: str
    commit: str
    blobs: Mapping[str, str]

    @classmethod
    def open(cls, root: Path, repository: str) -> Checkout:
        """Return a checkout. Raises RequestError where the folder is none.

        `repository` is its address where it has no remote.
        """
        if not root.is_dir():
            raise RequestError(f"{root}: no such folder; name a checkout of the suite")
        root = root.resolve()
        try:
            commit = git(root, "rev-parse", "--verify", "HEAD^{commit}").decode().strip()
        except RequestError as error:
            raise RequestError(
                f"{error}. Clone the suite and name that folder, so that its commit is known"
            ) from None
        listed = git(root, "ls-tree", "-r", "-z", "HEAD").decode(errors="replace")
        blobs = {path: blob for blob, path in _ENTRY.findall(listed)}
        if not blobs:
            raise RequestError(f"{root}: its commit {commit[:12]} has no files that can be read")
        remote = git(root, "config", "--default", "", "--get", "remote.origin.url").decode()
        found = _HOME.fullmatch(remote.strip())
        address = f"https://{found.group(1)}/{found.group(2)}" if found else repository
        return cls(root, address, commit, blobs)

    def matches(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Yield a match for each file whose whole path has this pattern, in order of the paths."""
        return filter(None, map(pattern.fullmatch, sorted(self.blobs)))

    def read(self, path: str) -> str:
        """Return the text of a file, which must be as the commit has it.

        Raises: BadFile.
        """
        if path not in self.blobs:
            raise BadFile(f"{path} is not in the commit {self.commit[:12]}")
        content = untrusted_files.read(self.root / path, MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise BadFile(f"has more than {MAX_FILE_BYTES >> 20} MiB")
        known, plain = self.blobs[path], content.replace(b"\r\n", b"\n")
        if _blob(content, len(known)) != known:  # Git may have written other ends of lines
            content = plain
        if _blob(content, len(known)) != known:
            raise BadFile(
                f"differs from the commit {self.commit[:12]}: run `git checkout -- '{path}'`"
            )
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise BadFile("is not UTF-8") from None

    def licence(self) -> str:
        """Return the text of the licence; empty without one."""
        for name in LICENCES:
            if name in self.blobs:
                try:
                    return self.read(name)
                except BadFile:
                    continue
        return ""

    def licence_name(self) -> str:
        """Return a short name of the licence, from its text."""
        text = " ".join(self.licence().split())
        known = {
            "MIT License": "MIT",
            "Permission is hereby granted, free of charge": "MIT",
            "Apache License Version 2.0": "Apache-2.0",
            "Researcher Reciprocity License": "Researcher-Reciprocity-1.0",
            "Redistribution and use in source and binary forms": "BSD",
        }
        return next((name for words, name in known.items() if words in text), "unknown")


def _blob(content: bytes, digits: int) -> str:
    name = "sha1" if digits == 40 else "sha256"
    return hashlib.new(name, b"blob %d\0" % len(content) + content).hexdigest()
