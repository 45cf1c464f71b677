"""Tasks from a checkout on the server's disk: a plan first, then drafts of what was chosen."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

from arena.accounts.models import User
from arena.catalog.models import Operator
from arena.catalog.task_folders import hash_of
from arena.curation import drafts, files
from arena.curation.files import MAX_FILE_BYTES, MAX_FILES, BadFiles
from arena.curation.models import Draft
from arena.curation.validation import problems_of
from arena.errors import Conflict, NotFound
from evaluation.sandbox import untrusted_files

CREATE, UPDATE, SKIP, ERROR = "create", "update", "skip", "error"
MAX_DEPTH = 3
MAX_TASKS = 300
MAX_ENTRIES = 20_000
MAX_GIT_BYTES = 1 << 20
_REF = re.compile(r"ref: (refs/[\w./+#@%-]+)\s*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Planned:
    """A task folder of a checkout, and what would happen to it."""

    name: str
    place: str
    action: str
    reason: str = ""
    files: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return the name with the hash of the files, which a confirmation must repeat."""
        return f"{self.name}:{hash_of(self.files)}"


def plan(path: str) -> list[Planned]:
    """Return what a path below the folder of checkouts would change. Raises UserError."""
    folder = _below_root(path)
    planned = [_planned(place, folder) for place in _task_folders(folder)]
    if not planned:
        raise NotFound(f"There is no task.toml below {path[:200]!r}.")
    names = [each.name for each in planned]
    return [
        each
        if names.count(each.name) == 1
        else Planned(each.name, each.place, ERROR, "another folder has the same name; rename one")
        for each in planned
    ]


def carry_out(user: User, path: str, keys: Collection[str]) -> list[Draft]:
    """Create a draft for each chosen task; all of them, or none.

    Raises: UserError, also where a file has changed since the plan was shown.
    """
    chosen = [each for each in plan(path) if each.action in (CREATE, UPDATE) and each.key in keys]
    if not keys:
        raise Conflict("Nothing was chosen.", "Choose tasks of the plan.")
    if len(chosen) != len(set(keys)):
        raise Conflict("The checkout has changed since the plan was shown.", "Read the plan again.")
    origin = f"the checkout {path[:150]} at {commit_of(_below_root(path)) or 'no commit'}"
    tasks = {each.name: each.files for each in chosen}
    return drafts.create(user, tasks, origin, published=True)


def _below_root(path: str) -> Path:
    """Return a folder below the configured one, links resolved. Raises UserError."""
    if not settings.ARENA_CHECKOUTS:
        raise Conflict(
            "No folder of checkouts is configured.", "Set ARENA_CHECKOUTS for the web server."
        )
    root = Path(settings.ARENA_CHECKOUTS).resolve()
    if "\0" in path:
        raise NotFound("The path has a byte of value zero.")
    try:
        folder = (root / path.strip().lstrip("/")).resolve()
    except (OSError, RuntimeError) as error:
        raise NotFound(f"The path cannot be read: {type(error).__name__}.") from error
    if not folder.is_relative_to(root):
        raise NotFound(f"{path[:200]!r} leaves the folder of checkouts.")
    if not folder.is_dir():
        raise NotFound(f"There is no folder {path[:200]!r} among the checkouts.")
    return folder


def _task_folders(folder: Path) -> Iterator[Path]:
    """Yield the folders with a `task.toml`, without following links."""
    found = 0
    for number, (place, subfolders, names) in enumerate(os.walk(folder)):
        here = Path(place)
        subfolders.sort()
        if number > MAX_ENTRIES:
            raise BadFiles("The checkout has too many folders.", "Name a folder inside it.")
        if "task.toml" in names:
            found += 1
            if found > MAX_TASKS:
                raise BadFiles(f"There are more than {MAX_TASKS} tasks.", "Name a folder inside.")
            subfolders.clear()
            yield here
        elif len(here.relative_to(folder).parts) >= MAX_DEPTH:
            subfolders.clear()
        else:
            subfolders[:] = [name for name in subfolders if not name.startswith(".")]


def _planned(place: Path, top: Path) -> Planned:
    name, shown = place.name, str(place.relative_to(top))
    try:
        files.check_name(name)
        text = files.folders_of(_files_of(place))[name]
    except BadFiles as error:
        return Planned(name, shown, ERROR, error.text)
    except OSError as error:
        return Planned(name, shown, ERROR, f"cannot be read: {error.strerror}")
    if Draft.objects.open().filter(name=name).exists():
        return Planned(name, shown, ERROR, "there is an open draft of this name")
    if found := problems_of(name, text):
        return Planned(name, shown, ERROR, str(found[0]))
    if not Operator.objects.filter(slug=name).exists():
        return Planned(name, shown, CREATE, "no task has this name", text)
    published = drafts.published_files(name)
    if published == text:
        return Planned(name, shown, SKIP, "equal to the published version", text)
    changed = [path for path in {*published, *text} if published.get(path) != text.get(path)]
    return Planned(name, shown, UPDATE, f"{len(changed)} files differ", text)


def _files_of(place: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a task folder with its name before their paths. Raises BadFiles."""
    count = 0
    for folder, subfolders, names in os.walk(place):
        for name in [*names, *(each for each in subfolders if Path(folder, each).is_symlink())]:
            path = Path(folder, name)
            inner = path.relative_to(place.parent).as_posix()
            descriptor = -1
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise BadFiles(f"{inner!r} is no file.", "Remove it.")
                content = os.read(descriptor, MAX_FILE_BYTES + 1)
            except OSError as error:
                raise BadFiles(f"{inner!r} is a link, or cannot be read.", "Remove it.") from error
            finally:
                if descriptor >= 0:
                    os.close(descriptor)
            count += 1
            if len(content) > MAX_FILE_BYTES or count > MAX_FILES:
                raise BadFiles(f"{inner!r} is too large, or one too many.", "Remove it.")
            yield inner, content


def commit_of(folder: Path) -> str:
    """Return the commit of the checkout around a folder, read from its files; empty for none."""
    root = Path(settings.ARENA_CHECKOUTS).resolve()
    for place in (folder, *folder.parents):
        if not place.is_relative_to(root):
            break
        git = place / ".git"
        head = _read_of_git(git, "HEAD")
        if not (ref := _REF.match(head)):
            if head:
                return _commit_in(head)
            continue
        name = ref[1]
        if ".." in name:
            return ""
        if commit := _commit_in(_read_of_git(git, name)):
            return commit
        packed = _read_of_git(git, "packed-refs").splitlines()
        return next((_commit_in(line) for line in packed if line.endswith(f" {name}")), "")
    return ""


def _read_of_git(git: Path, name: str) -> str:
    """Return the beginning of a file of Git; empty where there is none, or a link on the way."""
    path = git / name
    if os.path.realpath(path) != str(path):
        return ""
    return untrusted_files.read(path, MAX_GIT_BYTES).decode("ascii", "replace")


def _commit_in(text: str) -> str:
    """Return the first 40 digits of a commit at the beginning of a text; empty without them."""
    found = _COMMIT.match(text)
    return found[0] if found else ""
