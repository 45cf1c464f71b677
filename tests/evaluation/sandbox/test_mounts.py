"""Paths and sockets visible with a minimal root."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from evaluation.sandbox.features import isolation_features
from tests.evaluation.sandbox.test_launch import NO_LANDLOCK, inside


@pytest.fixture
def scattered() -> Iterator[Path]:
    """A folder outside the test's own temporary folder."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize("rights", [pytest.param({}, id="all features"), NO_LANDLOCK])
def test_file_outside_the_granted_folders_cannot_be_read(
    tmp_path: Path, rights: dict[str, object]
) -> None:
    if not isolation_features().read_only_system:
        pytest.skip("no mount namespaces on this machine")
    own, secret = tmp_path / "own", tmp_path / "secret"
    own.mkdir()
    secret.write_text("the seed")
    code = f"""
try: print(open({str(secret)!r}).read())
except OSError: print('refused')
"""
    assert inside(code, own, **rights) == (0, "refused\n")


@pytest.mark.parametrize("rights", [pytest.param({}, id="all features"), NO_LANDLOCK])
def test_minimal_root_reaches_sockets_in_granted_folders_only(
    tmp_path: Path, scattered: Path, rights: dict[str, object]
) -> None:
    if not isolation_features().read_only_system:
        pytest.skip("no mount namespaces on this machine")
    own, other = tmp_path / "own", tmp_path / "other"
    paths = [str(folder / "socket") for folder in (own, other, scattered)]
    code = f"""
import os, socket
for path in {paths!r}:
    try: socket.socket(socket.AF_UNIX).connect(path); print('reached')
    except OSError as error: print(error.strerror)
print(*map(os.path.exists, ({str(other)!r}, '/var/tmp', '/var/lib', '/dev/log', '/usr/bin')))
open('mine', 'w').close(); open('/dev/null', 'w').close(); open('/dev/stdin').close()
"""
    with ExitStack() as stack:
        for path in map(Path, paths):
            path.parent.mkdir(exist_ok=True)
            stack.enter_context(server := socket.socket(socket.AF_UNIX))
            server.bind(str(path))
            server.listen()
        status, output = inside(code, own, unix_sockets=True, minimal_root=True, **rights)
    assert output == "reached\n" + "No such file or directory\n" * 2 + "False " * 4 + "True\n"
    assert status == 0
