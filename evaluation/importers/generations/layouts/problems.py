"""One file a problem: `level_L/task_P.py`, whose first line names the agent and its speedup.

Options: `paths`, a glob of the sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from evaluation.importers.generations.generation import Claim, Generation
from evaluation.importers.generations.part import Part
from evaluation.importers.generations.tree import Tree

REQUIRED = ("paths",)
_NAME = re.compile(r".*level_(\d)/task_(\d+)\.py")
_FIRST = re.compile(r"#\s*level \d+ index \d+ agent name:\s*(.+?)\s+speedup:\s*([\d.]+)x")


def generations(collection: str, part: Part, tree: Tree) -> Iterator[Generation]:
    """Yield the sources by level and problem; a file without such a first line has no claim."""
    paths = [path for path in tree.paths if fnmatchcase(path, part.options["paths"])]
    texts = tree.read(paths)
    numbers = {path: match for path in paths if (match := _NAME.fullmatch(path))}
    for path in sorted(numbers, key=lambda each: tuple(map(int, numbers[each].groups()))):
        level, problem = map(int, numbers[path].groups())
        first = _FIRST.match(texts[path])
        model = first[1] if first else part.model
        speedup = float(first[2]) if first else None
        claim = Claim(True if first else None, speedup, part.hardware, part.baseline)
        source = tree.address(path)
        yield Generation(
            collection, model, part.suite, level, problem, 0, source, texts[path], claim
        )
