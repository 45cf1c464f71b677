"""Files of a task folder: their paths, their limits, and one hash of all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from arena.errors import Invalid

MAX_FILES = 400
MAX_FILE_BYTES = 256 << 10
MAX_TOTAL_BYTES = 3 << 20
MAX_TITLE = 200
"""Characters, as the column of a title has."""
NAME = re.compile(r"[a-z][a-z0-9_]{1,59}\Z")
TOP_FILES = ("task.toml", "fitted.toml", "gpu.toml", "prompt.md", "reference.py")
FOLDERS = ("baseline", "honest", "mutants")
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")
IGNORED = ("__MACOSX", ".DS_Store", ".git", "__pycache__")
"""Parts of paths that tools leave behind: such files are no part of a task."""


class BadFiles(Invalid):
    """Files that are no task folder; the message names the file and what to do."""


def check_title(title: str) -> str:
    """Return a title without needless spaces. Raises BadFiles."""
    title = " ".join(title.split())
    if not 1 <= len(title) <= MAX_TITLE:
        text = f"A task needs a title of 1 to {MAX_TITLE} characters."
        raise BadFiles(text, fields={"title": text})
    return title


def check_name(name: str) -> str:
    """Return the name of an operator. Raises BadFiles."""
    if not NAME.match(name):
        text = f"{name[:80]!r} is no name of a task."
        hint = "Use 2 to 60 lower case letters, digits and underscores, a letter first."
        raise BadFiles(text, hint, {"name": f"{text} {hint}"})
    return name


def check_path(path: str) -> str:
    """Return the path of a file in a task folder. Raises BadFiles."""
    folder, _, name = path.rpartition("/")
    known = path in TOP_FILES if not folder else folder in FOLDERS and bool(_PART.match(name))
    if not known:
        allowed = ", ".join([*TOP_FILES, *(f"{each}/..." for each in FOLDERS)])
        raise BadFiles(f"{path[:200]!r} is no file of a task.", f"Allowed are {allowed}.")
    return path


def check_files(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files in the order of their paths. Raises BadFiles."""
    if len(files) > MAX_FILES:
        raise BadFiles(f"There are {len(files)} files.", f"A task has {MAX_FILES} at most.")
    folded: dict[str, str] = {}
    total = 0
    for path, text in files.items():
        check_path(path)
        if other := folded.get(path.casefold()):
            raise BadFiles(f"{path} and {other} differ in case alone.", "Rename one.")
        folded[path.casefold()] = path
        total += check_text(path, text)
    if total > MAX_TOTAL_BYTES:
        raise BadFiles(
            f"The files are {total} bytes.", f"A task has {MAX_TOTAL_BYTES} bytes at most."
        )
    return dict(sorted(files.items()))


def check_text(path: str, text: str) -> int:
    """Return the size of a file in bytes. Raises BadFiles."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadFiles(f"{path} is not UTF-8.", "Save it as UTF-8.") from None
    if size > MAX_FILE_BYTES:
        raise BadFiles(f"{path} is {size} bytes.", f"A file has {MAX_FILE_BYTES} bytes at most.")
    if "\0" in text:
        raise BadFiles(f"{path} has a byte of value zero.", "A task's files are text.")
    return size


def decoded(path: str, content: bytes) -> str:
    """Return a file as text. Raises BadFiles where it is not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        text = f"{path} is not UTF-8: byte {error.start} is wrong."
        raise BadFiles(text, "Save it as UTF-8.") from None


def folders_of(files: Iterable[tuple[str, bytes]]) -> dict[str, dict[str, str]]:
    """Return the task folders among files of an archive, by name, each with its files as text.

    A folder with a `task.toml` is a task. Every other file must be in one. An archive without a
    folder around its task has the key "".

    Raises: BadFiles.
    """
    contents = {path: content for path, content in files if not _ignored(path)}
    roots = {path.rpartition("/")[0] for path in contents if path.split("/")[-1] == "task.toml"}
    if not roots:
        raise BadFiles("There is no task.toml.", "Upload a folder that has one.")
    found: dict[str, dict[str, str]] = {}
    owners: dict[str, str] = {}
    for root in sorted(roots):
        name = root.rpartition("/")[2]
        if name:
            check_name(name)
        if name in found:
            raise BadFiles(
                f"{root!r} and {owners[name]!r} have the same name.", "Rename one of the folders."
            )
        found[name], owners[name] = {}, root
    for path, content in contents.items():
        above = [root for root in roots if not root or path.startswith(f"{root}/")]
        if not above:
            raise BadFiles(f"{path[:200]!r} is in no folder with a task.toml.", "Remove it.")
        root = max(above, key=len)
        inner = check_path(path[len(root) + 1 :] if root else path)
        found[root.rpartition("/")[2]][inner] = decoded(path, content)
    return {name: check_files(each) for name, each in found.items()}


def _ignored(path: str) -> bool:
    return any(part in IGNORED for part in path.split("/")) or path.endswith(".pyc")
