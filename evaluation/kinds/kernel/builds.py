"""Built artefacts, in a cache named by content that no candidate can write."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evaluation.code.languages import languages
from evaluation.errors import BuildError
from evaluation.kinds.kernel import torch_variants
from evaluation.sandbox import untrusted_files
from evaluation.tasks.spec import Task
from evaluation.types import Case, CompilerOutput, Diagnostic, to_json

logger = logging.getLogger(__name__)

DONE = "build.json"
MAX_RETAINED = 256 << 20
"""Bytes of one artefact."""
ROOM = 20 << 30
"""Bytes of all artefacts of a cache; the least recently used are removed first."""
IN_USE_SECONDS = 3600.0
"""An artefact used within this time is never removed."""
DROPPED = "\n{name}.discards_result = True"
COPYING = " with copies"
"""Ending of the name of a baseline whose results are copied."""


@dataclass(frozen=True)
class Build:
    """A built artefact and its rights.

    A `trusted` one is a baseline: it may start a compiler and has a scratch folder of its own.
    """

    name: str
    language: str
    folder: Path
    outputs: tuple[CompilerOutput, ...] = ()
    trusted: bool = False
    compiles: bool = False
    """Whether it may start a compiler when it runs."""
    discards: bool = False
    """Whether its outputs are marked and not checked, as of a baseline that drops its results."""
    returns: bool = False
    """Whether it returns its outputs, which are then copied within the measured time."""
    copying: Build | None = None
    """The same baseline with its results copied, for a candidate whose results are."""
    scratch: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def build(
    task: Task, language: str, files: Mapping[str, str], cache: Path, name: str = "candidate"
) -> Build:
    """Build `files` for `task`, or find the artefact in the cache.

    Raises: `BuildError` with the compiler's output.
    """
    maker = languages()[language]
    digest = hashlib.sha256()
    sources = json.dumps(dict(files), sort_keys=True)
    for part in (language, task.hash, maker.key(files, task), sources):
        digest.update(f"{len(part)}\0{part}".encode())
    folder = cache / "builds" / digest.hexdigest()[:40]
    outputs = _made(folder, lambda workshop: maker.build(files, task, workshop))
    compiles, returns = maker.compiles(files, task.kind), maker.returns(files, task.operator)
    return Build(name, language, folder, outputs, compiles=compiles, returns=returns)


def compile_cases(
    task: Task, files: Mapping[str, str], built: Build, cases: Sequence[Case]
) -> Path:
    """Return the folder with what further cases need beyond a build, made or found in the cache.

    It is none that a candidate can read, because the cases may be hidden ones.
    """
    maker = languages()[built.language]
    content = json.dumps([built.folder.name, [to_json(case) for case in cases]])
    folder = built.folder.parent / hashlib.sha256(content.encode()).hexdigest()[:40]

    def make(workshop: Path) -> Sequence[CompilerOutput]:
        maker.compile_cases(files, task, cases, built.folder, workshop)
        return ()

    _made(folder, make)
    return folder


def _made(
    folder: Path, make: Callable[[Path], Sequence[CompilerOutput]]
) -> tuple[CompilerOutput, ...]:
    """Let `make` fill a folder of the cache, unless it is there, and return its outputs.

    Raises: `BuildError` of `make`, or where it takes too much room.
    """
    if _found(folder):
        return _read_outputs(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with untrusted_files.scratch(folder.parent, "building-") as scratch:
        workshop = scratch / "artefact"
        workshop.mkdir()
        outputs = tuple(make(workshop))
        if (size := untrusted_files.size(workshop)) > MAX_RETAINED:
            message = f"the artefact takes {size >> 20} MiB; the limit is {MAX_RETAINED >> 20} MiB"
            raise BuildError(message, outputs)
        (workshop / DONE).write_text(json.dumps(to_json(outputs)))
        untrusted_files.make_readable(workshop)
        try:
            workshop.rename(folder)
        except OSError:  # another build of the same content was first
            if not (folder / DONE).is_file():
                raise
    try:
        if _long_ago(folder.parent.parent / "room-made"):
            make_room(folder.parent)
    except Exception:  # of others' builds: this one has no part in it
        logger.exception("no room is made in %s", folder.parent)
    return outputs


def _found(folder: Path) -> bool:
    """Return whether an artefact exists; mark it as used and let everybody read it."""
    try:
        os.utime(folder / DONE)
        if not (folder / DONE).stat().st_mode & 0o004:
            untrusted_files.make_readable(folder)
    except OSError:  # it is not there, or another's
        return (folder / DONE).is_file()
    return True


def _long_ago(mark: Path) -> bool:
    """Return whether the last clean-up was over IN_USE_SECONDS ago, and mark the time."""
    if mark.exists() and mark.stat().st_mtime > time.time() - IN_USE_SECONDS:
        return False
    mark.touch()
    return True


def make_room(builds: Path, room: int = ROOM) -> None:
    """Remove the least recently used artefacts until the rest fits, and those of killed builds."""
    lately = time.time() - IN_USE_SECONDS
    for last_use, folder in sorted(map(_used, builds.iterdir()), reverse=True):
        done = (folder / DONE).is_file()
        room -= _size(folder) if done else 0
        if last_use < lately and (room < 0 or not done):
            _remove(folder)


def _used(folder: Path) -> tuple[float, Path]:
    """Return when an artefact was used last, or begun."""
    for mark in (folder / DONE, folder):
        with contextlib.suppress(OSError):
            return mark.stat().st_mtime, folder
    return time.time(), folder  # another process has just moved or removed it


def _size(folder: Path) -> int:
    try:
        return untrusted_files.size(folder)
    except OSError:
        return 0  # another process has just removed it


def _remove(folder: Path) -> None:
    """Remove an artefact: rename it first, then delete its files."""
    beside = untrusted_files.scratch(folder.parent, "removing-")
    with beside as scratch, contextlib.suppress(OSError):  # another process was first
        folder.rename(scratch / folder.name)


def baselines(task: Task, cache: Path) -> list[Build]:
    """Return the baselines of `task`: a source, or for torch the reference, eager and compiled."""
    source, operator = task.track.source, task.operator
    if source != "torch":
        name = operator.name + languages()[source].suffix
        alone = build(task, source, {name: operator.baseline(source)}, cache, "baseline")
        return [_keeping(alone, cache / "compiled" / alone.folder.name)]
    scratch = cache / "inductor"
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(scratch)}
    endings = {"eager": torch_variants.EAGER, "compile": torch_variants.COMPILED}

    def made(name: str, ending: str) -> Build:
        files = {f"{operator.name}.py": torch_variants.source(operator, ending)}
        return _keeping(build(task, "torch", files, cache, name), scratch, environment)

    # Candidates may write where they are told, so nothing is copied for what they are to beat.
    # The judge checks no values of a baseline's copies either: in half precision some are off.
    return [
        dataclasses.replace(
            made(name, ending + DROPPED),
            discards=True,
            copying=dataclasses.replace(made(f"{name}{COPYING}", ending), discards=True),
        )
        for name, ending in endings.items()
    ]


def _keeping(made: Build, scratch: Path, environment: Mapping[str, str] | None = None) -> Build:
    """Return a baseline whose scratch folder, with what it compiles, is kept."""
    scratch.mkdir(parents=True, exist_ok=True)
    return dataclasses.replace(made, trusted=True, scratch=scratch, environment=environment or {})


def _read_outputs(folder: Path) -> tuple[CompilerOutput, ...]:
    items: Sequence[dict[str, object]] = json.loads((folder / DONE).read_text())
    return tuple(_output(item) for item in items)


def _output(item: dict) -> CompilerOutput:  # type: ignore[type-arg]
    diagnostics = tuple(Diagnostic(**diagnostic) for diagnostic in item.pop("diagnostics"))
    return CompilerOutput(diagnostics=diagnostics, **item)
