"""JSON lines or a JSON list: a row has the level, the problem, the source and its speedup.

Options: `path`; `source` and `speedup`, names of a row's fields; `level` and `problem`, others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from evaluation.importers.generations.generation import Claim, Generation
from evaluation.importers.generations.part import Part
from evaluation.importers.generations.tree import Tree

REQUIRED = ("path", "source", "speedup")


def generations(collection: str, part: Part, tree: Tree) -> Iterator[Generation]:
    """Yield the rows that have a source, in the order of the file."""
    options = part.options
    path = options["path"]
    text = tree.read([path])[path]
    samples: dict[tuple[int, int], int] = {}
    for number, row in _rows(text):
        source = row.get(options["source"])
        if not isinstance(source, str) or not source.strip() or source.strip() == "None":
            continue
        place = int(row["level_id"]), int(row["task_id"])
        sample = samples[place] = samples.get(place, -1) + 1
        speedup = row.get(options["speedup"])
        right = None if speedup is None else True
        claim = Claim(right, speedup and float(speedup), part.hardware, part.baseline)
        address = tree.address(path) + (f"#L{number}" if number else "")
        yield Generation(collection, part.model, part.suite, *place, sample, address, source, claim)


def _rows(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield rows with the numbers of their lines, 0 in a list."""
    if text.lstrip().startswith("["):
        for row in json.loads(text):
            yield 0, row
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield number, json.loads(line)
