"""Repository tasks: folders with the files of a repository, and `repository.toml` beside them.

The file names what may be edited, and the repository's own commands: build, correctness and
benchmark. `docs/repositories.md` explains it with an example.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from evaluation.device_kind import CPU, GPU
from evaluation.errors import RequestError, TaskError
from evaluation.tasks.toml_reader import Table, read_text

TRACK = "repository"
FILE = "repository.toml"
BUILD, CORRECTNESS, BENCHMARK = "build", "correctness", "benchmark"
NONCE, SEED = "ARENA_NONCE", "ARENA_SEED"
"""Variables of the commands' environment. The seed is new for each verdict."""
MAX_SECONDS = {BUILD: 600.0, CORRECTNESS: 300.0, BENCHMARK: 40.0}
"""Largest time limits of the commands, with which a verdict ends before its stage does."""


@dataclass(frozen=True)
class Limits:
    """Limits of a repository."""

    files: int = 2000
    bytes: int = 32 << 20
    editable_bytes: int = 900_000


LIMITS = Limits()
"""Bytes of all editable files: a submission has them all."""
SKIPPED_FOLDERS = (".git", "__pycache__")


@dataclass(frozen=True)
class Command:
    """A command of the repository, which runs in its top folder, and the time that it may take."""

    argv: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class RepositoryTask:
    """A repository, the files that may be edited, and its commands."""

    name: str
    title: str
    category: str
    level: int
    prompt: str
    device: str
    """The kind of device that the benchmark is for."""
    editable: tuple[str, ...]
    """Globs of the files that may be edited; `**` stands for any folders."""
    commands: Mapping[str, Command]
    """By their names; a repository without a build has none."""
    source: Mapping[str, str]
    """Origin of the repository: `repository`, `commit` and `licence`, each if stated."""
    folder: Path
    files: tuple[str, ...]
    """The paths of its files, sorted."""
    hash: str = field(compare=False)

    @property
    def slug(self) -> str:
        return f"{self.name}/{TRACK}"

    def is_editable(self, path: str) -> bool:
        """Return whether a glob of `editable` matches a path."""
        return any(_matches_glob(path, glob) for glob in self.editable)

    @property
    def target_files(self) -> tuple[str, ...]:
        """Return the files of the repository that may be edited, in the order of their globs."""
        matched = (p for glob in self.editable for p in self.files if _matches_glob(p, glob))
        return tuple(dict.fromkeys(matched))

    @property
    def target_file(self) -> str:
        """Return the first editable file, which a submission of a single file replaces."""
        return self.target_files[0]


def _matches_glob(path: str, glob: str) -> bool:
    return _matches(path.split("/"), glob.split("/"))


def _matches(parts: Sequence[str], globs: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a glob."""
    if not globs:
        return not parts
    if globs[0] == "**":
        return any(_matches(parts[count:], globs[1:]) for count in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], globs[0]) and _matches(parts[1:], globs[1:])


def find_tasks(root: Path) -> dict[str, Path]:
    """Return the folders of the repository tasks in a folder of tasks, by name."""
    folder = root / TRACK
    if not folder.is_dir():
        return {}
    found = (path for path in sorted(folder.iterdir()) if (path / FILE).is_file())
    return {path.name: path for path in found}


def find_task(root: Path, name: str) -> RepositoryTask:
    """Return a repository task by name. Raises RequestError."""
    found = find_tasks(root)
    if name not in found:
        names = ", ".join(found) or "none"
        raise RequestError(f"{name}: no such task in {root / TRACK}; there are: {names}")
    return load(found[name])


def load(folder: Path, limits: Limits = LIMITS) -> RepositoryTask:
    """Return the task of a folder. Raises TaskError naming the file and the key."""
    path = folder / FILE
    table = Table.read(path)
    ignored = table.strings("ignore") if table.has("ignore") else ()
    files = tuple(_files(folder, ignored, limits))
    task = RepositoryTask(
        name=folder.name,
        title=table.string("title"),
        category=table.string("category"),
        level=table.integer("level") if table.has("level") else 1,
        prompt=table.string("prompt").strip(),
        device=table.option("device", (CPU, GPU)) if table.has("device") else CPU,
        editable=_editable(table, files),
        commands={
            name: _command(table, name) for name in MAX_SECONDS if name != BUILD or table.has(name)
        },
        source=_source(table),
        folder=folder,
        files=files,
        hash=_hash(folder, files),
    )
    table.finish()
    _check_editable(task, path, limits.editable_bytes)
    return task


def _editable(table: Table, files: Sequence[str]) -> tuple[str, ...]:
    globs = table.strings("editable")
    for glob in globs:
        if glob.startswith("/") or {"", ".", ".."} & set(glob.split("/")):
            table.fail("editable", f"{glob!r} must be a path or glob below the repository")
        if not any(_matches_glob(path, glob) for path in files):
            table.fail("editable", f"{glob!r} matches no file of the repository")
    return globs


def _command(table: Table, name: str) -> Command:
    item = table.table(name)
    command = Command(item.strings("command"), item.positive("seconds"))
    if command.seconds > MAX_SECONDS[name]:
        item.fail("seconds", f"must be at most {MAX_SECONDS[name]:g}")
    item.finish()
    return command


def _source(table: Table) -> dict[str, str]:
    if not table.has("source"):
        return {}
    item = table.table("source")
    names = ("repository", "commit", "licence")
    source = {name: item.string(name) for name in names if item.has(name)}
    item.finish()
    return source


def _files(folder: Path, ignored: Sequence[str], limits: Limits) -> Iterator[str]:
    """Yield the paths of the files of a repository, but for those that a glob of `ignored` matches.

    Raises: TaskError for what it cannot hold.
    """
    count = size = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        for name in sorted((*names, *(f for f in folders if Path(place, f).is_symlink()))):
            path = Path(place, name)
            relative = path.relative_to(folder).as_posix()
            if relative == FILE or any(_matches_glob(relative, glob) for glob in ignored):
                continue
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                raise TaskError(f"{path}: not a regular file; remove it, or name it in `ignore`")
            count, size = count + 1, size + status.st_size
            if count > limits.files or size > limits.bytes:
                most = f"{limits.files:,} files or {limits.bytes >> 20} MiB"
                raise TaskError(
                    f"{folder}: more than {most}; leave out "
                    "what its commands do not need, by `ignore`"
                )
            yield relative


def _hash(folder: Path, files: Sequence[str]) -> str:
    """Return a hash of the task's file and of all files of the repository."""
    digest = hashlib.sha256()
    for name in (FILE, *files):
        content, mode = (folder / name).read_bytes(), is_executable(folder / name)
        digest.update(f"\0{name}\0{mode}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def is_executable(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IXUSR)


def _check_editable(task: RepositoryTask, path: Path, most: int) -> None:
    """Require that all editable files together can be submitted, as text."""
    size = sum(len(read_text(task.folder / name).encode()) for name in task.target_files)
    if size > most:
        raise TaskError(
            f"{path}: editable: {size:,} bytes of files; at most {most:,} can be "
            "submitted, so name fewer"
        )


def starter_files(task: RepositoryTask) -> dict[str, str]:
    """Return the editable files of the repository, as text."""
    return {name: read_text(task.folder / name) for name in task.target_files}
