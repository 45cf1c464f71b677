"""Workspace: the folder of an agent, its files, and the safe reading of what is submitted."""

from __future__ import annotations

import importlib.util
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluation.errors import RequestError
from evaluation.judge.kinds import Tree
from evaluation.sandbox import untrusted_files
from runners.session import arena_check

MCP = "arena-mcp"
MAX_FILE_BYTES = 1_000_000


class Unreadable(Exception):
    """Raised where the target cannot be submitted; the message says what is wrong with it."""


def has_mcp() -> bool:
    """Return whether `arena-mcp` can run here: its library is optional on a bare GPU machine."""
    return importlib.util.find_spec("mcp") is not None


@dataclass(frozen=True)
class Workspace:
    """An agent's folder; `target` names the file in it that is submitted.

    With a `tree`, several of its files are submitted, and `target` is the first of them. The files
    that are `given` are no part of it.
    """

    folder: Path
    target: str
    tree: Tree | None = None
    given: frozenset[str] = frozenset()

    @classmethod
    def create(
        cls,
        folder: Path,
        files: Mapping[str, str],
        target: str,
        tree: Tree | None = None,
    ) -> Workspace:
        """Create the folder with the files of a tree, `files` and the commands.

        The commands are `arena-check`, `arena-profile`, and where its library is installed
        `arena-mcp`.
        """
        untrusted_files.remove(folder)
        folder.mkdir(parents=True, mode=0o700)
        if tree:
            tree.copy(folder)
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        own = Path(arena_check.__file__)
        modules = {"arena-check": own, arena_check.PROFILE: own}
        if has_mcp():
            modules[MCP] = own.with_name("arena_mcp.py")
        for name, module in modules.items():
            source = module.read_text(encoding="utf-8")
            command = folder / name
            command.write_text(f"#!{sys.executable} -I\n{source}", encoding="utf-8")
            command.chmod(0o755)
        return cls(folder, target, tree, frozenset({*files, *modules}))

    def read_target(self) -> dict[str, str]:
        """Return the files to submit, by name.

        The agent owns the folder and may change it meanwhile, so links are not followed.

        Raises: Unreadable.
        """
        if self.tree:
            try:
                return self.tree.read(self.folder, self.given)
            except RequestError as error:
                raise Unreadable(str(error)) from None
        path = self.folder / self.target
        try:
            with open(path, "rb", opener=untrusted_files.open_no_follow) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise Unreadable(f"{self.target} must be a regular file")
                content = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            raise Unreadable(f"{self.target} is not there") from None
        except OSError as error:
            raise Unreadable(f"{self.target} must be a regular file: {error.strerror}") from None
        if len(content) > MAX_FILE_BYTES:
            raise Unreadable(
                f"{self.target} has {status.st_size:,} bytes; the limit is {MAX_FILE_BYTES:,}"
            )
        if b"\0" in content:
            raise Unreadable(f"{self.target} holds a NUL byte at offset {content.index(0)}")
        try:
            return {self.target: content.decode("utf-8")}
        except UnicodeDecodeError as error:
            byte = content[error.start]
            raise Unreadable(
                f"{self.target} is not UTF-8: byte 0x{byte:02x} at offset {error.start}"
            ) from None

    def remove(self) -> None:
        untrusted_files.remove(self.folder)
