"""Compiler of `torch.compile` on a CPU: g++ with PyTorch's header parsed beforehand.

Each kernel that Inductor generates includes one header, which takes g++ 2.7 of 3.4 seconds. A
precompiled header, made once with Inductor's own flags, leaves 0.7. Processes find it through a
wrapper of g++, so that the key of a compiled kernel is the same in all of them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from evaluation.building.native import COMPILER, compiler_version
from evaluation.sandbox.untrusted_files import make_readable

HEADER = "torch/csrc/inductor/cpp_prefix.h"
WRAPPER = "cxx"
MAX_SECONDS = 600
_PROGRAM = """
import torch
torch.compile(lambda x: (x.sin() + 1).sum(-1))(torch.randn(64, 64))
"""
_WRAPPER = '#!/bin/sh\nexec {compiler} -I "$(dirname "$0")" "$@"\n'
_RECORDER = '#!/bin/sh\necho "$*" >> {log}\nexec {compiler} "$@"\n'


def prepared(cache: Path) -> Path | None:
    """Return the folder of the wrapper and the header, made at the first call; None without g++."""
    if shutil.which(COMPILER) is None:
        return None
    name = f"{torch.__version__}-{abs(hash_of(compiler_version()))}".replace("+", "-")
    folder = cache / "production" / "compiler" / name
    if (folder / WRAPPER).is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        made = Path(work) / "made"
        _make(made, Path(work))
        if not folder.exists():
            made.rename(folder)
    make_readable(folder)
    (folder / WRAPPER).chmod(0o755)
    return folder


def hash_of(text: str) -> int:
    """Return a number for a text that is the same in every process."""
    return int.from_bytes(text.encode(), "little") % (1 << 61)


def _make(folder: Path, work: Path) -> None:
    flags = _flags(work)
    target = folder / f"{HEADER}.gch"
    target.parent.mkdir(parents=True)
    include = Path(torch.__file__).parent / "include" / HEADER
    command = [COMPILER, *flags, "-x", "c++-header", str(include), "-o", str(target)]
    subprocess.run(command, check=True, timeout=MAX_SECONDS, capture_output=True)
    wrapper = folder / WRAPPER
    wrapper.write_text(_WRAPPER.format(compiler=COMPILER))
    wrapper.chmod(0o755)


def _flags(work: Path) -> list[str]:
    """Return the flags with which Inductor compiles a kernel, recorded from one."""
    log, recorder = work / "log", work / "recorder"
    recorder.write_text(_RECORDER.format(log=log, compiler=COMPILER))
    recorder.chmod(0o755)
    environment = {
        "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        "HOME": str(work),
        "TMPDIR": str(work),
        "CXX": str(recorder),
        "TORCHINDUCTOR_CACHE_DIR": str(work / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
        "TORCHINDUCTOR_VEC_ISA_OK": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    command = [sys.executable, "-c", _PROGRAM]
    subprocess.run(
        command, check=True, timeout=MAX_SECONDS, env=environment, capture_output=True, cwd=work
    )
    lines = [line for line in log.read_text().splitlines() if ".main.cpp" in line]
    words = shlex.split(lines[0])
    flags: list[str] = []
    skip = False
    for word in words:
        if skip or word.endswith(".cpp") or word.startswith(("-l", "-L")):
            skip = False
        elif word == "-o":
            skip = True
        elif word != "-shared":
            flags.append(word)
    return flags
