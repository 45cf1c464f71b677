"""The check that a run of tests leaves nothing behind, on runs that do."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.leftovers import _named, _unused_memory
from tests.processes import Process

ROOT = Path(__file__).resolve().parent.parent
ORPHAN = "setsid sh -c 'exec tail -f /dev/null' > /dev/null 2>&1 & echo $!"
LISTENER = (
    "import socket, signal; s = socket.create_server(('127.0.0.1', 0));"
    "print(s.getsockname()[1], flush=True); signal.pause()"
)


def run(folder: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a file of tests with the check alone."""
    (folder / "test_it.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    plugins = ["-p", "tests.leftovers", "-p", "xdist.plugin"]
    words = [sys.executable, "-m", "pytest", "-q", *plugins, "--grace", "1", *options]
    bare = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [*words, str(folder)], cwd=folder, env={**os.environ, **bare},
        capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "in a worker"])
def test_orphan_is_named_with_its_test_and_ended(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run(
        tmp_path,
        "import subprocess\ndef test_good(): pass\ndef test_leaves():\n"
        f"    print(subprocess.check_output({ORPHAN!r}, shell=True))\n",
        *options,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    (line,) = done.stderr.strip().splitlines()
    pid = int(re.findall(r"left behind: process (\d+) \(tail -f /dev/null\)", line)[0])
    assert "test_it.py::test_leaves" in line
    with pytest.raises(OSError, match=str(pid)):
        Process.read(pid)


def test_orphan_without_an_environment_is_named_by_the_time_at_which_it_began(
    tmp_path: Path,
) -> None:
    done = run(
        tmp_path,
        "import subprocess\ndef test_leaves():\n"
        f"    subprocess.check_output({ORPHAN!r}, shell=True, env={{}})\n",
    )
    assert done.returncode == 1
    assert "(tail -f /dev/null): test_it.py::test_leaves\n" in done.stderr


def test_socket_of_an_orphan_is_named(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "import subprocess, sys\ndef test_leaves():\n"
        f"    server = subprocess.Popen([sys.executable, '-c', {LISTENER!r}], stdout=-1)\n"
        "    assert int(server.stdout.readline())\n",
    )
    assert done.returncode == 1
    assert re.search(r"left behind: process .*, listens on port \d+: test_it", done.stderr)


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "in a worker"])
def test_listening_socket_of_the_tests_is_named(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run(
        tmp_path,
        "import socket\nkept = []\ndef test_leaves():\n"
        "    kept.append(socket.create_server(('127.0.0.1', 0)))\ndef test_good(): pass\n",
        *options,
    )
    assert done.returncode == 1, done.stdout
    assert re.search(r"process listens on port \d+: test_it.py::test_leaves", done.stdout)


def test_run_that_leaves_nothing_passes_and_one_that_fails_keeps_its_code(tmp_path: Path) -> None:
    good = "import socket\ndef test_good():\n    socket.create_server(('127.0.0.1', 0)).close()\n"
    done = run(tmp_path, good)
    assert (done.returncode, done.stderr) == (0, "")
    assert run(tmp_path, "import nothing_of_this_name\n").returncode == 2


def test_shared_memory_that_nobody_uses_is_found(tmp_path: Path) -> None:
    path = Path(f"/dev/shm/arena-left-{os.getpid()}")
    library = ctypes.CDLL(None)
    segment = -1
    try:
        path.touch()
        segment = library.shmget(0, 4096, 0o1600)
        assert segment >= 0
        found = dict(_unused_memory(path.stat().st_ctime - 1))
    finally:
        path.unlink()
        library.shmctl(segment, 0, None)
    assert {str(path), f"segment {segment} of System V"} <= found.keys()
    assert _named(found[str(path)], [(0.0, 1e12, "test_a"), (0.0, 1.0, "test_b")]) == "test_a"
