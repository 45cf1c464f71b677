"""Paths and sockets visible with a minimal root."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import IsolationFeatures
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


WITHOUT_MOUNTS = pytest.param(
    {"features": replace(isolation_features(), namespaces=False, read_only_system=False)},
    id="Landlock alone",
)


@pytest.mark.parametrize(
    "rights",
    [
        pytest.param({}, id="all features"),
        pytest.param({"unprivileged_user": True, "scratch_bytes": 1 << 20}, id="another user"),
        pytest.param({"minimal_root": True}, id="minimal root"),
        NO_LANDLOCK,
        WITHOUT_MOUNTS,
    ],
)
def test_files_of_other_gpus_cannot_be_opened(tmp_path: Path, rights: dict[str, object]) -> None:
    """Stand-ins for the files of GPUs are devices that every machine has."""
    features = rights.get("features", isolation_features())
    assert isinstance(features, IsolationFeatures)
    hides = features.read_only_system
    if not (hides or features.landlock):
        pytest.skip("neither mount namespaces nor Landlock on this machine")
    code = """
import os
names = ('null', 'full', 'tty', 'ptmx', 'kmsg')
for name in names:
    try: os.close(os.open('/dev/' + name, os.O_RDWR))
    except OSError: continue
    print('opened', name)
print(*(name for name in names if os.path.exists('/dev/' + name)))
"""
    gpu = {"gpu": True, "gpu_files": ("/dev/full",), **rights}
    seen = "null full" if hides else "null full tty ptmx kmsg"
    expected = f"opened null\nopened full\n{seen}\n"
    assert inside(code, tmp_path, **gpu) == (0, expected)
