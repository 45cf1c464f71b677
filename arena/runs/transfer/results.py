"""Results files: one judged run per line, with everything that another arena needs to show it.

Private columns (hidden cases, seeds) keep their names in a line and are private again after import.
The producer of an event is left out, because it names machines.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from datetime import datetime
from functools import partial
from io import BufferedReader, RawIOBase
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast
from uuid import UUID

from django.db.models import Model, QuerySet

from arena.catalog.models import Agent
from arena.errors import UserError
from arena.runs.models import Blob, Evaluation, Event, Experiment, Run, Submission
from arena.runs.scores import SCORES
from arena.runs.states import RUN_JUDGED, Scope
from arena.runs.trace import retention
from evaluation import types

FORMAT = 1
XZ_PART_BYTES = 32 * 2**20
"""Part of a file that one core compresses."""
MAX_XZ_PARTS = 8
"""Parts that are compressed at once: each takes 0.7 GB of memory."""


def _xz(data: bytes) -> bytes:
    """Compress parts of a text side by side, each as a stream of one file.

    A window on a machine with GPUs ends with this.
    """
    starts = range(0, max(len(data), 1), XZ_PART_BYTES)
    parts = (data[start : start + XZ_PART_BYTES] for start in starts)
    with ThreadPoolExecutor(min(MAX_XZ_PARTS, os.cpu_count() or 1)) as pool:
        return b"".join(pool.map(partial(lzma.compress, preset=9), parts))


PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": partial(gzip.compress, mtime=0),
    # A third of the gzip size: level 9 has a window that spans similar listings.
    ".xz": _xz,
}
"""Compression by file suffix."""
MAX_LINE_BYTES = 32 * 2**20
"""The longest published line has 8 MiB."""
MAX_UNPACK_BYTES = 128 * 2**20
"""Memory of the decompressor; `xz -9` asks for 65 MiB."""
READ_BYTES = 2**16
EXPERIMENT = ("slug", "title", "description", "plan", "created_at")
AGENT = ("slug", "title", "adapter", "model", "settings", "description")
OPEN_BOOK = "open_book"
"""Column of the agents alone that are given reference solutions."""
HARDWARE = (
    "slug", "name", "vendor", "kind", "arch", "peaks", "isolation", "fingerprint", "queue",
)  # fmt: skip
RUN = (
    "id", "label", "repeat", "visibility", "status", "reason", "fault", "budget", "created_at",
    "started_at", "ended_at", "last_seq", "rounds", "cost_usd", "tokens", *SCORES,
)  # fmt: skip
QUARANTINE = ("quarantined_at", "quarantine_reason")
MARKS = ("by_arena", *QUARANTINE)
"""Columns of the runs alone that a user started, or that count in no ranking."""
SUBMISSION = ("round", "content_hash", "files", "note", "created_at")
EVALUATION = (
    "scope", "case", "status", "verdict", "reason", "message", "report", "private", "fingerprint",
    "judge_version", "aka_score", "noisy", "attempts", "created_at", "started_at", "ended_at",
    *SCORES,
)  # fmt: skip
GATE = tuple(
    field.name
    for field in fields(types.GateResult)
    if field.name not in ("compiler", "measurements")
)
MEASUREMENT = tuple(field.name for field in fields(types.Measurement))
EVENT = (
    "seq", "event_id", "rev", "at", "t_ms", "kind", "span", "parent", "actor", "body",
)  # fmt: skip


def export(experiment: Experiment, path: Path) -> int:
    """Write the judged runs of an experiment to `path`, oldest first, and return their number.

    The file appears only when it is complete. It is compressed if its suffix is in PACKED.
    """
    runs = experiment.runs.with_names().filter(status__in=RUN_JUDGED)
    lines = [line_of(run) for run in runs.order_by("created_at", "pk")]
    data = "".join(f"{line}\n" for line in lines).encode()
    draft = path.with_name(f".{path.name}.part")
    draft.write_bytes(PACKED.get(path.suffix, bytes)(data))
    draft.replace(path)
    return len(lines)


def lines_of(path: Path, max_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of a file, decompressed while it is read.

    A line longer than `max_bytes` is cut one byte after the limit.

    Raises: UserError if the file is torn or damaged.
    """
    try:
        with _unpacked(path) as file:
            while line := file.readline(max_bytes + 1):
                yield line
                while not line.endswith(b"\n") and line:
                    line = file.readline(max_bytes + 1)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise UserError(
            f"{path}: {error}.", f"Fetch it again: it is no whole {path.suffix} file."
        ) from error


def _unpacked(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path))
    return BufferedReader(_Unxz(path), READ_BYTES) if path.suffix == ".xz" else path.open("rb")


class _Unxz(RawIOBase):
    """An xz file, decompressed in at most MAX_UNPACK_BYTES of memory.

    `lzma.open` has no such limit: it takes the memory that the file asks for.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._stream = lzma.LZMADecompressor(memlimit=MAX_UNPACK_BYTES)

    def close(self) -> None:
        self._file.close()
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        """Fill a part of `room` and return its length; 0 at the end of the last stream."""
        found = b""
        while not found:
            packed = b""
            if self._stream.eof:
                if not (packed := self._stream.unused_data or self._file.read(READ_BYTES)):
                    return 0
                self._stream = lzma.LZMADecompressor(memlimit=MAX_UNPACK_BYTES)
            elif self._stream.needs_input and not (packed := self._file.read(READ_BYTES)):
                raise EOFError("it ends in the middle")
            found = self._stream.decompress(packed, len(room))
        room[: len(found)] = found
        return len(found)


def line_of(run: Run) -> str:
    """Return one run as a line of JSON."""
    submissions = run.submissions.order_by("round")
    events = list(retention.events_of(run))
    blobs = Blob.objects.filter(pk__in=set(chain.from_iterable(map(_blobs_of, events))))
    version = run.task_version
    whole = {
        "arena_results": FORMAT,
        "task": {"slug": version.task.slug, "hash": version.content_hash},
        "experiment": _columns(run.experiment, EXPERIMENT) if run.experiment else None,
        "agent": _columns(run.agent, (*AGENT, *([OPEN_BOOK] if run.agent.open_book else []))),
        "hardware": _columns(run.hardware, HARDWARE),
        "run": {
            **_columns(run, RUN),
            **_marks(run),
            "final_round": run.final.round if run.final else None,
        },
        "submissions": [
            {
                "id": submission.pk,
                **_columns(submission, SUBMISSION),
                "evaluations": list(_evaluations(_kept(submission))),
            }
            for submission in submissions
        ],
        "events": [_columns(event, EVENT) for event in events],
        "blobs": {blob.sha256: retention.text_of(blob) for blob in blobs.order_by("sha256")},
    }
    return json.dumps(whole, default=_serialised, separators=(",", ":"))


def _marks(run: Run) -> dict[str, Any]:
    """Return the MARKS of a run as far as it has any; a quarantine may be that of its agent."""
    marks: dict[str, Any] = {} if run.by_arena else {"by_arena": False}
    subjects: tuple[Run | Agent, ...] = (run, run.agent)
    if held := next((each for each in subjects if each.quarantined_at), None):
        marks |= {name: getattr(held, name) for name in QUARANTINE}
    return marks


def _serialised(value: object) -> str:
    """Serialise a time to the microsecond, so that it is the same after import."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} does not go into a file of results")


def _kept(submission: Submission) -> QuerySet[Evaluation]:
    """Return the evaluations that count; an arena that imports them keeps no earlier verdicts."""
    return submission.evaluations.exclude(scope__in=(Scope.REJUDGE, Scope.PAST)).order_by("pk")


def _evaluations(evaluations: Iterable[Evaluation]) -> Iterator[dict[str, Any]]:
    for evaluation in evaluations:
        yield {
            "id": evaluation.pk,
            **_columns(evaluation, EVALUATION),
            "gates": [_columns(gate, GATE) for gate in evaluation.gates.order_by("pk")],
            "measurements": [
                _columns(measured, MEASUREMENT)
                for measured in evaluation.measurements.order_by("pk")
            ],
        }


def _columns(row: Model, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def _blobs_of(event: Event) -> list[str]:
    return [blob["sha256"] for blob in event.body.get("blobs", {}).values()]
