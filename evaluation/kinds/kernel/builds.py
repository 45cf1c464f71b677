"""Builds of kernels: of a candidate, and of the baselines of a task."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evaluation.code import build_cache
from evaluation.code.building import native
from evaluation.code.languages import languages
from evaluation.kinds.kernel import torch_variants
from evaluation.tasks.spec import Task
from evaluation.types import Case, CompilerOutput, to_json

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
    further: Path | None = None
    """Folder with the code that further cases need beyond the artefact, where it was compiled."""
    scratch: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def build(
    task: Task,
    language: str,
    files: Mapping[str, str],
    cache: Path,
    name: str = "candidate",
    arrived: Path | None = None,
) -> Build:
    """Build `files` for `task`, or find the artefact in the cache.

    `arrived` has artefacts of another machine, one of which is used where it fits this one.

    Raises: `BuildError` with the compiler's output.
    """
    maker = languages()[language]
    folder = build_cache.place(cache, files, language, task.hash, maker.key(files, task))
    if arrived and maker.travels and not build_cache.found(folder):
        folder = build_cache.arrived(arrived, folder.name, native.origin()) or folder
    outputs = build_cache.made(folder, lambda workshop: maker.build(files, task, workshop))
    compiles, returns = maker.compiles(files, task.kind), maker.returns(files, task.operator)
    return Build(name, language, folder, outputs, compiles=compiles, returns=returns)


def traveller(built: Build) -> dict[str, str]:
    """Return the artefact of a build that another machine can use: its folder and its key."""
    if not languages()[built.language].travels:
        return {}
    name = built.folder.name
    return {"folder": name, "key": build_cache.travel_key(name, native.origin())}


def compile_cases(
    task: Task, files: Mapping[str, str], built: Build, cases: Sequence[Case]
) -> Path:
    """Return the folder with what further cases need beyond a build, made or found in the cache.

    It is none that a candidate can read, because the cases may be hidden ones.
    """
    maker = languages()[built.language]
    folder = _folder_of_cases(built, cases)

    def make(workshop: Path) -> Sequence[CompilerOutput]:
        maker.compile_cases(files, task, cases, built.folder, workshop)
        return ()

    build_cache.made(folder, make)
    return folder


def _folder_of_cases(built: Build, cases: Sequence[Case]) -> Path:
    content = json.dumps([built.folder.name, [to_json(case) for case in cases]])
    return built.folder.parent / hashlib.sha256(content.encode()).hexdigest()[:40]


def compile_baselines(task: Task, cache: Path, cases: Sequence[Case]) -> None:
    """Make the baselines of `task`, and what they need for further cases, ahead of a measurement.

    Raises: `BuildError`.
    """
    for made in baselines(task, cache):
        if cases and languages()[made.language].compiles_cases:
            compile_cases(task, _baseline_files(task), made, cases)


def with_further(built: Build, cases: Sequence[Case]) -> Build:
    """Return a build with what was compiled for further cases, if it was."""
    folder = _folder_of_cases(built, cases)
    return dataclasses.replace(built, further=folder) if build_cache.found(folder) else built


def _baseline_files(task: Task) -> dict[str, str]:
    source, operator = task.track.source, task.operator
    return {operator.name + languages()[source].suffix: operator.baseline(source)}


def baselines(task: Task, cache: Path) -> list[Build]:
    """Return the baselines of `task`: a source, or for torch the reference, eager and compiled."""
    source, operator = task.track.source, task.operator
    if source != "torch":
        alone = build(task, source, _baseline_files(task), cache, "baseline")
        return [_keeping(alone, build_cache.scratch_folder(cache, alone.folder.name))]
    scratch = build_cache.scratch_folder(cache, f"torch-{operator.name}")
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(scratch)}
    endings = {"eager": torch_variants.EAGER, "compile": torch_variants.COMPILED}

    def made(name: str, ending: str) -> Build:
        files = {f"{operator.name}.py": torch_variants.source(operator, ending)}
        return _keeping(build(task, "torch", files, cache, name), scratch, environment)

    # Candidates may write where they are told, so nothing is copied for what they are to beat.
    # Values of copies count where baselines are chosen, once: in half precision some are off.
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
    return dataclasses.replace(made, trusted=True, scratch=scratch, environment=environment or {})
