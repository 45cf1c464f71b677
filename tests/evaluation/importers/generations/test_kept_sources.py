"""No code of a collection is kept here: pieces of its sources are looked for in every file."""

from __future__ import annotations

import lzma
import os
import subprocess
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from evaluation.importers.generations.collection import Collection, descriptions
from evaluation.importers.generations.tree import GitTree, has_commit

ROOT = Path(__file__).resolve().parents[4]
FETCHED = "ARENA_COLLECTIONS"
"""Variable with the folder that holds the fetched repositories, up to two folders below it."""
MIN_CHARACTERS = 16
"""Shorter lines, such as `import torch`, tell nothing."""
LINES = 4
"""Lines in a row that make a piece: single ones are alike in many kernels."""


def pieces(text: str) -> set[int]:
    """Return hashes of each LINES lines in a row, without short lines, space and comments."""
    lines = [line.partition("#")[0].partition("//")[0].strip() for line in text.splitlines()]
    long = [line for line in lines if len(line) >= MIN_CHARACTERS]
    return {hash(tuple(long[at : at + LINES])) for at in range(len(long) - LINES + 1)}


def kept_files() -> Iterator[tuple[str, str]]:
    """Yield path and text of every file of the repository; of packed results as they unpack."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().rstrip("\0").split("\0"):
        path = ROOT / name
        if not path.is_file():
            continue
        content = path.read_bytes()
        if path.suffix == ".xz":
            content = lzma.decompress(content)
        text = content.decode(errors="replace")
        yield name, text.replace("\\n", "\n") if ".json" in name else text


def fetched() -> Iterator[tuple[Collection, Path]]:
    """Yield the described collections that are there, each with its folder."""
    root = Path(os.environ.get(FETCHED) or "/nonexistent")
    folders = [path for path in chain([root], root.glob("*"), root.glob("*/*")) if path.is_dir()]
    for each in descriptions():
        found = next((folder for folder in folders if has_commit(folder, each.commit)), None)
        if found:
            yield each, found


def test_pieces_find_lines_that_were_moved_and_indented() -> None:
    source = "\n".join(f"value_{n} = compute_something({n})" for n in range(6))
    moved = "def other():\n" + "".join(f"    {line}  # why\n" for line in source.splitlines()[1:5])
    assert pieces(source) & pieces(moved)
    assert not pieces(source) & pieces(
        "\n".join(source.splitlines()[:3]) + "\nvalue_9 = elsewhere(3)"
    )


def test_no_piece_of_a_collection_is_in_the_repository() -> None:
    every = list(fetched())
    if not every:
        pytest.skip(f"{FETCHED} names no folder with a collection")
    theirs: set[int] = set()
    for collection, folder in every:
        tree = GitTree(folder, collection.commit, collection.address)
        for generation in collection.generations(tree):
            theirs |= pieces(generation.text)
    assert theirs
    assert [name for name, text in kept_files() if pieces(text) & theirs] == []
