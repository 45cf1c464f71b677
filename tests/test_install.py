"""Plans of `scripts/install` on machines with and without a GPU, indexes and uv."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from threading import Thread

import pytest
from packaging.tags import sys_tags

ROOT = Path(__file__).parents[1]
CUDA = re.findall(r"^torch==(\S+)", (ROOT / "locks/torch-cuda.txt").read_text(), re.MULTILINE)[0]
CPU = f"{CUDA}+cpu"
TAG = next(sys_tags())
PIP = ".venv/bin/python -m pip install --only-binary=:all:"
HASHED = "--require-hashes -r locks/run.txt"


class Index(ThreadingHTTPServer):
    """A server of package indexes below /cpu and /simple, with wheels of torch by version."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Pages)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.offered = [CUDA]
        self.asked: list[str] = []


class _Pages(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        wheels = [f"torch-{version}-{TAG}.whl" for version in self.server.offered]
        page = "".join(f'<a href="{wheel}">{wheel}</a>' for wheel in wheels).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[Index]:
    with Index() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def closed() -> Iterator[str]:
    """Yield the URL of an index where nothing listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{reserved.getsockname()[1]}/cpu"


class Machine:
    """A checkout in which nothing is installed, and the environment of the installer there."""

    def __init__(self, folder: Path, index: Index) -> None:
        self.folder = folder
        for name in ("locks", "scripts"):
            (folder / name).symlink_to(ROOT / name)
        (folder / "bin").mkdir()
        self.environment = {
            "PATH": str(folder / "bin"),
            "HOME": str(folder),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"{index.url}/simple",
            "ARENA_TORCH_INDEX": f"{index.url}/cpu",
            "ARENA_NVIDIA_DRIVER": str(folder / "driver"),
        }

    def install(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (sys.executable, "scripts/install", *words), cwd=self.folder,
            env={**self.environment, **more}, capture_output=True, text=True,
        )  # fmt: skip

    def plan(self, **more: str) -> dict[str, str]:
        """Return the lines of a dry run by their names, with the commands in one."""
        done = self.install("--dry-run", "run", **more)
        assert done.returncode == 0, done.stderr
        assert not (self.folder / ".venv/bin").exists()
        lines: dict[str, str] = {}
        for line in done.stdout.splitlines():
            name, _, text = line.partition(":")
            lines[name] = f"{lines[name]}\n{text.strip()}" if name in lines else text.strip()
        return lines

    def program(self, name: str, *lines: str) -> Path:
        path = self.folder / name
        path.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
        path.chmod(0o755)
        return path


@pytest.fixture
def machine(tmp_path: Path, index: Index) -> Machine:
    return Machine(tmp_path, index)


def size(*locks: str) -> int:
    heads = [(ROOT / "locks" / lock).read_text().splitlines()[0] for lock in locks]
    return sum(int(re.findall(r"about (\d+) MB", head)[0]) for head in heads)


def test_machine_without_a_gpu_takes_the_cpu_build_of_pytorchs_index(
    machine: Machine, index: Index
) -> None:
    assert machine.plan() == {
        "tool": "pip",
        "torch": f"{CPU}, CPU build, as no NVIDIA driver is here",
        "from": f"{index.url}/cpu for torch, {index.url}/simple",
        "size": f"at most about {size('torch-cpu.txt', 'run.txt')} MB to load",
        "lock": "locks/torch-cpu.txt, locks/run.txt",
        "command": f"{PIP} --no-deps --index-url {index.url}/cpu -r locks/torch-cpu.txt\n"
        f"{PIP} {HASHED}",
    }


def test_machine_without_a_gpu_and_pytorchs_index_takes_the_cpu_build_of_pips(
    machine: Machine, index: Index, closed: str
) -> None:
    index.offered = [CUDA, CPU]
    plan = machine.plan(ARENA_TORCH_INDEX=closed)
    assert plan["torch"] == f"{CPU}, CPU build, as no NVIDIA driver is here"
    assert plan["from"] == f"{index.url}/simple"
    assert plan["command"] == f"{PIP} --no-deps -r locks/torch-cpu.txt\n{PIP} {HASHED}"


def test_machine_without_a_gpu_takes_the_cuda_build_where_no_index_has_another(
    machine: Machine, closed: str
) -> None:
    plan = machine.plan(ARENA_TORCH_INDEX=closed)
    assert plan["torch"] == f"{CUDA}, CUDA build, as no index here offers the CPU build"
    assert plan["command"] == f"{PIP} {HASHED} -r locks/torch-cuda.txt"


def test_nvidia_driver_brings_the_cuda_build_with_hashes(machine: Machine, index: Index) -> None:
    (machine.folder / "driver").touch()
    gigabytes = size("torch-cuda.txt", "run.txt") / 1000
    assert machine.plan() == {
        "tool": "pip",
        "torch": f"{CUDA}, CUDA build, as an NVIDIA driver is here",
        "from": f"{index.url}/simple",
        "size": f"at most about {gigabytes:.1f} GB to load",
        "lock": "locks/torch-cuda.txt, locks/run.txt",
        "command": f"{PIP} {HASHED} -r locks/torch-cuda.txt",
    }
    assert index.asked == []


def test_offline_machine_takes_the_wheels_of_a_folder(machine: Machine, index: Index) -> None:
    wheels = machine.folder / "wheels"
    wheels.mkdir()
    (wheels / f"torch-{CPU}-{TAG}.whl").touch()
    plan = machine.plan(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels))
    assert plan["torch"] == f"{CPU}, CPU build, as no NVIDIA driver is here"
    assert plan["from"] == str(wheels)
    assert plan["command"] == f"{PIP} --no-deps -r locks/torch-cpu.txt\n{PIP} {HASHED}"
    assert index.asked == []


def test_variable_forces_either_build(machine: Machine, index: Index) -> None:
    assert machine.plan(ARENA_TORCH="cuda")["torch"].startswith(f"{CUDA}, CUDA build, as ARENA")
    (machine.folder / "driver").touch()
    assert machine.plan(ARENA_TORCH="cpu")["torch"].startswith(f"{CPU}, CPU build, as ARENA")


def test_forced_cpu_build_that_no_index_has_is_refused(machine: Machine, closed: str) -> None:
    refused = machine.install("--dry-run", "run", ARENA_TORCH="cpu", ARENA_TORCH_INDEX=closed)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"arena: no index here offers torch {CPU}")


@pytest.mark.parametrize(
    ("words", "variable", "message"),
    [
        (("run",), "rocm", "ARENA_TORCH must be cpu or cuda, not 'rocm'"),
        (("nothing",), "", "scripts/install [--dry-run] dev|judge|production|run|store|telemetry"),
        ((), "", "scripts/install [--dry-run] dev|judge|production|run|store|telemetry"),
    ],
)
def test_wrong_argument_is_refused_in_one_line(
    machine: Machine, words: tuple[str, ...], variable: str, message: str
) -> None:
    refused = machine.install("--dry-run", *words, ARENA_TORCH=variable)
    assert refused.returncode == 1
    assert refused.stderr == f"arena: {message}\n"


def test_silent_index_counts_as_none() -> None:
    loader = SourceFileLoader("installer", str(ROOT / "scripts/install"))
    spec = spec_from_loader("installer", loader)
    assert spec
    installer = sys.modules["installer"] = module_from_spec(spec)
    try:
        loader.exec_module(installer)
    finally:
        del sys.modules["installer"]
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert not installer.answers(url, seconds=0.05)


def test_password_of_an_index_is_not_printed(machine: Machine, index: Index) -> None:
    url = index.url.replace("//", "//name:secret@")
    done = machine.install(
        "--dry-run", "run", PIP_INDEX_URL=f"{url}/simple", ARENA_TORCH_INDEX=f"{url}/cpu"
    )
    assert f"{index.url}/simple" in done.stdout
    assert "secret" not in done.stdout


def test_cpu_build_in_the_environment_makes_room_for_the_cuda_build(machine: Machine) -> None:
    packages = machine.folder / ".venv/lib/python3.14/site-packages"
    (packages / f"torch-{CPU}.dist-info").mkdir(parents=True)
    commands = machine.plan(ARENA_TORCH="cuda")["command"].splitlines()
    assert commands[0] == ".venv/bin/python -m pip uninstall --yes torch"


def test_cpu_build_in_the_environment_is_kept_and_no_index_is_asked(
    machine: Machine, index: Index
) -> None:
    packages = machine.folder / ".venv/lib/python3.14/site-packages"
    (packages / f"torch-{CPU}.dist-info").mkdir(parents=True)
    plan = machine.plan()
    assert plan["torch"] == f"{CPU}, CPU build, as no NVIDIA driver is here"
    assert plan["command"] == f"{PIP} --no-deps -r locks/torch-cpu.txt\n{PIP} {HASHED}"
    assert index.asked == []


def test_uv_installs_where_it_is_there_with_the_indexes_of_pip(
    machine: Machine, index: Index
) -> None:
    machine.program("bin/uv", f'echo "$* $UV_DEFAULT_INDEX $UV_FIND_LINKS" >> {machine.folder}/log')
    assert machine.plan()["tool"] == "uv"
    assert machine.plan(UV="")["tool"] == "pip"
    inner = machine.program("inner", f'exec {sys.executable} "$@"')
    lines = (f'mkdir -p {machine.folder}/.venv/bin', f"cp {inner} .venv/bin/python")  # fmt: skip
    python = machine.program("python3", "PATH=/usr/bin:/bin", *lines)
    done = machine.install("run", PYTHON=str(python), PIP_FIND_LINKS="/wheels\n/more")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        f"Installing 'run' into .venv by uv, once: torch {CPU} from {index.url}/cpu "
        "(CPU build, as no NVIDIA driver is here); "
        f"at most about {size('torch-cpu.txt', 'run.txt')} MB to load\n"
    )
    uv = "pip install --only-binary=:all: --python .venv/bin/python"
    sources = f"{index.url}/simple /wheels,/more"
    assert (machine.folder / "log").read_text().splitlines() == [
        f"{uv} --no-deps --default-index {index.url}/cpu -r locks/torch-cpu.txt {sources}",
        f"{uv} {HASHED} {sources}",
    ]


def test_failed_installation_exits_1_with_the_reason_above(machine: Machine) -> None:
    machine.program("bin/uv", "echo no network >&2", "exit 2")
    inner = machine.program("inner", f'exec {sys.executable} "$@"')
    python = machine.program(
        "python3", "PATH=/usr/bin:/bin", f"mkdir -p .venv/bin && cp {inner} .venv/bin/python"
    )
    failed = machine.install("run", PYTHON=str(python))
    assert failed.returncode == 1
    first, last = failed.stderr.splitlines()
    assert first == "no network"
    assert last.startswith("arena: the installation failed; see above.")
