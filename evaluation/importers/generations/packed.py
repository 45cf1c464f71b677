"""A folder with generations and their tasks, to be judged on a machine without their collections.

`generations.jsonl` has the facts of the collections, then a generation in each line; `imported` has
the tasks as an import writes them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.errors import RequestError
from evaluation.importers.generations.generation import Generation
from evaluation.importers.generations.tasks import Suites
from evaluation.importers.importer import CACHE

GENERATIONS, IMPORTED = "generations.jsonl", "imported"
FORMAT = 1
RECORDS = "records.jsonl"
"""Records of earlier machines in the folder, which are continued."""
_COMMAND = """\
export PYTHONUNBUFFERED=1 ARENA_CACHE=/tmp/campaign/cache; mkdir -p /tmp/campaign; \
command -v ninja || python3 -m pip install -q --no-index --no-deps {folder}/ninja-*.whl; \
timeout -k 5 585 python3 -m evaluation generations {folder} --kind gpu --scope round --limit 60 \
--within 560 --earlier {folder}/{records} /tmp/campaign/{records} --export "$OUT/{records}" \
> "$OUT/log" 2>&1; cp "$OUT/{records}" /tmp/campaign/{records}; nvidia-smi -L; nproc; \
head -n 5 "$OUT/log"; grep -v "min left" "$OUT/log" | tail -n 20; tail -n 60 "$OUT/log"
"""


def is_packed(folder: Path) -> bool:
    return (folder / GENERATIONS).is_file()


def read(folder: Path) -> tuple[dict[str, Any], list[Generation]]:
    """Return the facts of the collections by name, and the generations. Raises RequestError."""
    try:
        lines = (folder / GENERATIONS).read_text(encoding="utf-8").splitlines()
        head, *rows = map(json.loads, lines)
        if head["format"] != FORMAT:
            raise RequestError(f"{folder}: pack it again with this version")
        return dict(head["collections"]), [Generation.from_json(row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(f"{folder / GENERATIONS}: {error}; pack it again") from error


def write(
    folder: Path,
    collections: Mapping[str, Any],
    generations: Sequence[Generation],
    suites: Suites,
) -> int:
    """Write generations and their tasks in the place of an older folder; return its bytes.

    Records that are kept there stay.

    Raises: RequestError where the folder has tasks that no pack has written, or cannot be written.
    """
    if (folder / IMPORTED).exists() and not is_packed(folder):
        raise RequestError(f"{folder / IMPORTED} is there, and would be removed; name a new folder")
    for suite in {generation.suite for generation in generations} & suites.names:
        if suites.root(suite).resolve().is_relative_to((folder / IMPORTED).resolve()):
            raise RequestError(f"{folder} is read from; name a new folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"{folder}: {error.strerror}; name a new folder") from None
    rows = [{"format": FORMAT, "collections": dict(collections)}]
    rows += [generation.to_json() for generation in generations]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / GENERATIONS).write_text(text, encoding="utf-8")
    shutil.rmtree(folder / IMPORTED, ignore_errors=True)
    for suite in {generation.suite for generation in generations} & suites.names:
        root, target = suites.root(suite), folder / IMPORTED / suite
        target.mkdir(parents=True)
        for name in {suites.task(each) for each in generations if each.suite == suite} - {""}:
            shutil.copytree(root / name, target / name, copy_function=shutil.copyfile)
        for name in (CACHE, "LICENSE"):
            if (root / name).is_file():
                shutil.copyfile(root / name, target / name)
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def command(folder: Path) -> str:
    """Return the command that judges a packed folder on a machine with GPUs, and continues.

    It ends within ten minutes, and leaves records and a log in the folder `OUT`.
    """
    return _COMMAND.format(folder=folder.name, records=RECORDS).replace("\\\n", "")
