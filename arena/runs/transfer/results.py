"""Runs as lines of a file: each line is one run with all that another arena needs to show it.

What is private in the database (hidden cases, seeds) stands under the same names in a line, and is
private again where it is loaded. Which process recorded an event is left out: it names machines.
"""

from __future__ import annotations

import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from io import BufferedReader, RawIOBase
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast
from uuid import UUID

from django.db.models import Model

from arena.errors import UserError
from arena.runs.models import Blob, Evaluation, Event, Experiment, Measurement, Run, Scores
from arena.runs.states import RUN_JUDGED

FORMAT = 1
PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": partial(gzip.compress, mtime=0),
    # A third as large: listings of one kernel are alike, and 9 still remembers the last one.
    ".xz": partial(lzma.compress, preset=9),
}
"""How a file is packed, by what its name ends in."""
LONGEST_LINE = 32 * 2**20
"""Bytes; the longest of the published ones has 8 MiB."""
UNPACKING = 128 * 2**20
"""Bytes of memory that unpacking may take; `xz -9` asks for 65 MiB."""
PIECE = 2**16
SCORES = tuple(field.name for field in Scores._meta.get_fields())
EXPERIMENT = ("slug", "title", "description", "plan", "created_at")
AGENT = ("slug", "title", "adapter", "model", "settings", "description")
HARDWARE = (
    "slug", "name", "vendor", "kind", "arch", "peaks", "isolation", "fingerprint", "queue",
)  # fmt: skip
RUN = (
    "id", "label", "repeat", "visibility", "status", "reason", "fault", "budget", "created_at",
    "started_at", "ended_at", "last_seq", "rounds", "cost_usd", "tokens", *SCORES,
)  # fmt: skip
SUBMISSION = ("round", "content_hash", "files", "note", "created_at")
EVALUATION = (
    "scope", "case", "status", "verdict", "reason", "message", "report", "private", "fingerprint",
    "judge_version", "aka_score", "noisy", "attempts", "created_at", "started_at", "ended_at",
    *SCORES,
)  # fmt: skip
GATE = (
    "gate", "verdict", "reason", "rule", "message", "passed", "total", "duration_ms", "detail",
    "private",
)  # fmt: skip
MEASUREMENT = tuple(
    field.name
    for field in Measurement._meta.concrete_fields
    if field.name not in ("id", "evaluation")
)
EVENT = (
    "seq", "event_id", "rev", "at", "t_ms", "kind", "span", "parent", "actor", "body",
)  # fmt: skip


def export(experiment: Experiment, path: Path) -> int:
    """Write the judged runs of an experiment to `path`, oldest first; how many there are.

    The file is whole or not there at all, and packed where its name says so.
    """
    runs = experiment.runs.with_names().filter(status__in=RUN_JUDGED)
    lines = [line_of(run) for run in runs.order_by("created_at", "pk")]
    data = "".join(f"{line}\n" for line in lines).encode()
    draft = path.with_name(f".{path.name}.part")
    draft.write_bytes(PACKED.get(path.suffix, bytes)(data))
    draft.replace(path)
    return len(lines)


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a file, unpacked as they are read; of one that is longer than LONGEST_LINE,
    what is just too long. Raises UserError for half a file.
    """
    try:
        with _unpacked(path) as file:
            while line := file.readline(LONGEST_LINE + 1):
                yield line
                while not line.endswith(b"\n") and line:
                    line = file.readline(LONGEST_LINE + 1)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise UserError(
            f"{path}: {error}.", f"Fetch it again: it is no whole {path.suffix} file."
        ) from error


def _unpacked(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path))
    return BufferedReader(_Unxz(path), PIECE) if path.suffix == ".xz" else path.open("rb")


class _Unxz(RawIOBase):
    """An xz file, unpacked as it is read, in no more than UNPACKING bytes of memory: what Python
    has for it takes as much as the file asks for.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._stream = lzma.LZMADecompressor(memlimit=UNPACKING)

    def close(self) -> None:
        self._file.close()
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        """Fill a part of `room`; 0 at the end, which is that of a stream."""
        found = b""
        while not found:
            packed = b""
            if self._stream.eof:
                if not (packed := self._stream.unused_data or self._file.read(PIECE)):
                    return 0
                self._stream = lzma.LZMADecompressor(memlimit=UNPACKING)
            elif self._stream.needs_input and not (packed := self._file.read(PIECE)):
                raise EOFError("it ends in the middle")
            found = self._stream.decompress(packed, len(room))
        room[: len(found)] = found
        return len(found)


def line_of(run: Run) -> str:
    """One run as JSON on one line."""
    submissions = run.submissions.order_by("round")
    events = list(Event.objects.filter(run=run).order_by("seq"))
    blobs = Blob.objects.filter(pk__in=set(chain.from_iterable(map(_blobs_of, events))))
    version = run.task_version
    whole = {
        "arena_results": FORMAT,
        "task": {"slug": version.task.slug, "hash": version.content_hash},
        "experiment": _columns(run.experiment, EXPERIMENT) if run.experiment else None,
        "agent": _columns(run.agent, AGENT),
        "hardware": _columns(run.hardware, HARDWARE),
        "run": {
            **_columns(run, RUN),
            "final_round": run.final.round if run.final else None,
        },
        "submissions": [
            {
                "id": submission.pk,
                **_columns(submission, SUBMISSION),
                "evaluations": list(_evaluations(submission.evaluations.order_by("pk"))),
            }
            for submission in submissions
        ],
        "events": [_columns(event, EVENT) for event in events],
        "blobs": {blob.sha256: blob.content for blob in blobs.order_by("sha256")},
    }
    return json.dumps(whole, default=_written, separators=(",", ":"))


def _written(value: object) -> str:
    """An instant to the microsecond, so that it is the same one where it is loaded."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} does not go into a file of results")


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
