"""Programs of harnesses on this machine: found, with their versions, or the reason why not."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from runners.agents import Harness, harness, names
from runners.gateway import providers

VERSION_SECONDS = 20.0
SYSTEM_FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin")


@dataclass(frozen=True)
class Installed:
    """A harness on this machine; `problem` says what is missing, and is empty for nothing."""

    program: str = ""
    version: str = ""
    readable: tuple[str, ...] = ()
    """Paths that its sandbox must be able to read."""
    folders: tuple[str, ...] = ()
    """Folders that its PATH needs, beside those of the system."""
    problem: str = ""


def find(adapter: str) -> Installed:
    """Return the program of an adapter's harness. Raises as `runners.agents.load` does."""
    needs = harness(adapter)
    if not needs.program:
        return Installed()
    folder: Path = settings.ARENA_HARNESSES
    own = [folder / "node_modules/.bin", folder / "python/bin"]
    program = shutil.which(needs.program, path=os.pathsep.join((*map(str, own), _path())))
    if program is None:
        return Installed(problem=f"{needs.program} is not installed: run {needs.install}")
    if not program.startswith(str(folder)):
        real = Path(program).resolve()
        readable_program = (program, str(real.parent))
        beside = (str(Path(program).parent),)
        return Installed(program, _version(program), readable_program, beside)
    node = shutil.which("node") if (folder / "node_modules") in Path(program).parents else ""
    if node is None:
        return Installed(problem=f"{needs.program} needs Node.js 20 or newer: install nodejs")
    readable: tuple[str, ...] = (str(folder),)
    folders: tuple[str, ...] = ()
    if node and str(Path(node).parent) not in SYSTEM_FOLDERS:
        readable = (*readable, str(Path(node).resolve().parents[1]))
        folders = (str(Path(node).parent),)
    return Installed(program, _package_version(needs, program), readable, folders)


def capabilities() -> dict[str, Any]:
    """Return what `Worker.capabilities` holds: the harnesses and providers of this machine."""
    found: dict[str, Any] = {"harnesses": {}, "providers": {}}
    for name in names():
        try:
            installed = find(name)
        except Exception as error:  # a malformed module must not hide the others
            installed = Installed(problem=str(error))
        found["harnesses"][name] = {"version": installed.version, "problem": installed.problem}
    for name, provider in known_providers().items():
        try:
            provider.key()
            problem = ""
        except LookupError as error:
            problem = str(error)
        server = provider.server_problem()
        facts = {"wires": list(provider.wires), "problem": problem, "server": server}
        found["providers"][name] = facts
    return found


def known_providers() -> Mapping[str, providers.Provider]:
    """Return the providers that are configured here. Raises: providers.BadProvider."""
    return providers.load(settings.ARENA_HOME / "providers.toml")


def _path() -> str:
    return os.environ.get("PATH", os.pathsep.join(SYSTEM_FOLDERS))


def _package_version(needs: Harness, program: str) -> str:
    """Return the version in the package's own description, or that which the program prints."""
    libraries = settings.ARENA_HARNESSES / "python/lib"
    name = needs.package.replace("-", "_")
    for described in libraries.glob(f"*/site-packages/{name}-*.dist-info") if name else ():
        return str(described.stem.partition("-")[2])
    description = settings.ARENA_HARNESSES / "node_modules" / needs.package / "package.json"
    try:
        version = json.loads(description.read_text(encoding="utf-8"))["version"]
    except (OSError, ValueError, KeyError):
        return _version(program)
    return str(version)


@functools.cache
def _version(program: str) -> str:
    try:
        printed = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=VERSION_SECONDS,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return printed.strip().partition("\n")[0][:100]
