"""Files of records, in JSON lines: a head, then a line for each judged generation.

A line is written as soon as its verdict is there. One that was cut off is left out when read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evaluation.code.cache_folder import replace_text
from evaluation.errors import RequestError
from evaluation.importers.generations.generation import Generation

FORMAT = 1
MAX_MESSAGE = 300

Record = Mapping[str, Any]


def record_of(generation: Generation, task: str, judged: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a generation: all but its source."""
    return {
        "collection": generation.collection,
        "model": generation.model,
        "suite": generation.suite,
        "level": generation.level,
        "problem": generation.problem,
        "task": task,
        "sample": generation.sample,
        "sha256": generation.sha256,
        "source": generation.source,
        "language": generation.language,
        "claimed": {
            "right": generation.claim.right,
            "speedup": generation.claim.speedup,
            "hardware": generation.claim.hardware,
            "baseline": generation.claim.baseline,
        },
        "judged": dict(judged),
    }


def key_of(record: Record) -> tuple[str, str, str, int, int, int, str]:
    """Return the identity of a record's generation, as `Generation.key`."""
    numbers = record["level"], record["problem"], record["sample"]
    return record["collection"], record["model"], record["suite"], *numbers, record["sha256"]


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return head and records of a file; both are empty where there is none, or an empty one.

    A record of a file from before records named their judge has the one of the head.

    Raises: RequestError for any other file, which an export would overwrite.
    """
    rows = []
    text = _text(path)
    for line in text.splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:  # the writer was killed amid a line
            continue
    if not text.strip():
        return {}, []
    try:
        head, *found = rows
        if head["format"] != FORMAT:
            raise ValueError
        for record in found:
            key_of(record)
            record["judged"].setdefault("judge_version", head.get("judge_version"))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RequestError(f"{path}: not records of this version; name another file") from None
    return head, found


def _text(path: Path) -> str:
    """Return the text of a file; empty where there is none. Raises RequestError."""
    if path.exists() and not path.is_file():
        raise RequestError(f"{path}: not a regular file; name another for the records")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise RequestError(f"{path}: not records, but binary; name another file") from None
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror}; name another file of records") from None


class RecordFile:
    """A file of records that grows: `add` writes a line, `close` the head with the time of the end.

    It begins with the records of earlier files. A later record of a generation takes the place of
    an earlier one.

    Raises: RequestError for a file that cannot be written.
    """

    def __init__(self, path: Path, head: Mapping[str, Any], records: Iterable[Record]) -> None:
        self.path = path
        self.head = {"format": FORMAT, **head}
        self._by_key = {key_of(record): record for record in records}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write_all()
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise RequestError(f"{path}: {error.strerror}; name another --export") from None

    @property
    def records(self) -> list[Record]:
        """Return the records, one for each generation."""
        return list(self._by_key.values())

    def add(self, record: Record) -> None:
        """Append a record."""
        self._by_key[key_of(record)] = record
        self._file.write(_line(record))
        self._file.flush()

    def close(self, ended_at: str) -> None:
        """Note the end in the head."""
        self._file.close()
        self.head = {**self.head, "ended_at": ended_at}
        self._write_all()

    def _write_all(self) -> None:
        replace_text(self.path, "".join(map(_line, [self.head, *self.records])))


def _line(data: Record) -> str:
    return json.dumps(data, ensure_ascii=False) + "\n"
