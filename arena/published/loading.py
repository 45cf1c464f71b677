"""Load files of published kernels and verdicts; the rows of a changed file are replaced."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from django.core.exceptions import ValidationError
from django.db import transaction

from arena.errors import NotFound, UserError
from arena.published.models import PublishedFile, PublishedKernel, PublishedVerdict
from arena.published.outcomes import decided
from arena.published.records import Header, KernelLine, VerdictLine
from arena.runs.strict import Mismatch, read
from arena.runs.transfer.results import lines_of

CLAIMS, VERDICTS = "claims-", "verdicts-"
"""First parts of the names of files, by their kind."""
MAX_REFUSAL_CHARACTERS = 300
ID_DIGITS = 12
IDENTITY = ("collection", "model", "suite", "level", "problem", "sample", "sha256", "source")
VERDICT_IDENTITY = ("task", "agent", "scope", "setting")
"""Fields that an id is a hash of, with the name of the file."""
ROWS_AT_ONCE = 500


@dataclass
class Loaded:
    """The number of new rows of a file, and a message for each refused line.

    `known` means that the file has not changed since it was loaded.
    """

    rows: int = 0
    refused: list[str] = field(default_factory=list)
    known: bool = False


def is_published(path: Path) -> bool:
    """Return whether a file is one of kernels or verdicts, by its name."""
    return path.name.startswith((CLAIMS, VERDICTS))


def load(path: Path) -> Loaded:
    """Load a file and return what was loaded; rows of an earlier form of it are replaced.

    A packed file replaces the plain one of its name. Raises: UserError if it cannot be read.
    """
    name = path.name.partition(".")[0]
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise NotFound(f"{path}: {error.strerror}.", "Name a file of results.") from error
    if PublishedFile.objects.filter(name=name, digest=digest).exists():
        return Loaded(known=True)
    lines = ((n, line) for n, line in enumerate(lines_of(path), start=1) if line.strip())
    header = _header(path, next(lines, (1, b""))[1])
    loaded = Loaded()
    with transaction.atomic():
        PublishedFile.objects.filter(name=name).delete()
        file = PublishedFile.objects.create(
            name=name,
            digest=digest,
            judge_version=header.judge_version,
            command=header.command,
            device=header.device_name[:100],
            started_at=header.started_at,
            ended_at=header.ended_at,
            fingerprint=header.fingerprint,
            collections={slug: each.model_dump() for slug, each in header.collections.items()},
        )
        if path.name.startswith(CLAIMS):
            kernels = list(_kernels(path.name, file, lines, loaded))
            PublishedKernel.objects.bulk_create(kernels, ROWS_AT_ONCE)
            loaded.rows = len(kernels)
        else:
            verdicts = list(_verdicts(path.name, file, lines, loaded))
            PublishedVerdict.objects.bulk_create(verdicts, ROWS_AT_ONCE)
            loaded.rows = len(verdicts)
    return loaded


def _header(path: Path, line: bytes) -> Header:
    try:
        return read(Header, json.loads(line))
    except ValueError as error:
        raise UserError(
            f"{path.name}: its first line is no header: {error}.", "Write it again."
        ) from error


def _kernels(
    name: str, file: PublishedFile, lines: Iterator[tuple[int, bytes]], loaded: Loaded
) -> Iterator[PublishedKernel]:
    seen = set(PublishedKernel.objects.values_list("pk", flat=True))
    for number, line in lines:
        try:
            kernel = _kernel(file, read(KernelLine, json.loads(line)))
            if kernel.pk in seen:
                raise Mismatch("the same kernel stands in another line")
            kernel.clean_fields(exclude=["file"])
        except (ValueError, ValidationError) as error:
            loaded.refused.append(f"{name}:{number}: {str(error)[:MAX_REFUSAL_CHARACTERS]}.")
            continue
        seen.add(kernel.pk)
        yield kernel


def _kernel(file: PublishedFile, line: KernelLine) -> PublishedKernel:
    claimed, judged = line.claimed, line.judged.model_dump()
    own = line.model_dump(exclude={"claimed", "judged"})
    return PublishedKernel(
        id=_id(file.name, *(own[part] for part in IDENTITY)),
        file=file,
        **own,
        **{f"claimed_{part}": value for part, value in claimed.model_dump().items()},
        **{
            **judged,
            "noisy": bool(judged["noisy"]),
            "status": decided(judged["status"], judged["reason"]),
            "judge_version": judged["judge_version"] or file.judge_version,
        },
    )


def _verdicts(
    name: str, file: PublishedFile, lines: Iterator[tuple[int, bytes]], loaded: Loaded
) -> Iterator[PublishedVerdict]:
    seen = set()
    for number, line in lines:
        try:
            own = read(VerdictLine, json.loads(line)).model_dump()
            slug = _id(file.name, *(own[part] for part in VERDICT_IDENTITY))
            if slug in seen:
                raise Mismatch("the same verdict stands in another line")
            operator, _, track = own.pop("task").partition("/")
            verdict = PublishedVerdict(file=file, slug=slug, operator=operator, track=track, **own)
            verdict.clean_fields(exclude=["file"])
        except (ValueError, ValidationError) as error:
            loaded.refused.append(f"{name}:{number}: {str(error)[:MAX_REFUSAL_CHARACTERS]}.")
            continue
        seen.add(slug)
        yield verdict


def _id(*names: str) -> str:
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:ID_DIGITS]
