"""A leaderboard's data: a problem's title has the fastest sources, each a file named by its MD5.

Options: `path` of the JSON file; `solutions`, the folder of the sources; `models`, their titles by
the names on the leaderboard.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from evaluation.importers.generations.generation import Claim, Generation
from evaluation.importers.generations.part import Part
from evaluation.importers.generations.tree import Tree

REQUIRED = ("path", "solutions")
_TITLE = re.compile(r"Level (\d): (\d+)_")


def generations(collection: str, part: Part, tree: Tree) -> Iterator[Generation]:
    """Yield the sources in the order of the file; a model's second one of a problem is sample 1."""
    path, folder = part.options["path"], part.options["solutions"]
    titles = part.options.get("models", {})
    data = json.loads(tree.read([path])[path])
    known = set(tree.paths)
    rows = []
    for title, entries in data.items():
        if match := _TITLE.match(title):
            place = int(match[1]), int(match[2])
            rows += [(place, entry, f"{folder}/{entry['file']}.py") for entry in entries]
    texts = tree.read(source for _, _, source in rows if source in known)
    samples: dict[tuple[str, int, int], int] = {}
    for (level, problem), entry, source in rows:
        if source not in texts:
            continue
        model = titles.get(entry["display_name"], entry["display_name"])
        key = model, level, problem
        sample = samples[key] = samples.get(key, -1) + 1
        claim = Claim(True, float(entry["torch_speedup"]), part.hardware, part.baseline)
        address = tree.address(source)
        yield Generation(
            collection, model, part.suite, level, problem, sample, address, texts[source], claim
        )
