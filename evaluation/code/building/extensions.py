"""Extensions that a PyTorch implementation requests by `load_inline`.

They are built in the sandbox while its file is imported there, and found when the candidate process
imports it again.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluation import device_kind
from evaluation.code.building import native, nvcc
from evaluation.code.building.compile_jobs import MAX_TEXT, PYTHON_PATHS, run_compiler
from evaluation.code.building.static_analysis import Source
from evaluation.errors import Broken, BuildError
from evaluation.sandbox import untrusted_files
from evaluation.sandboxed import build_torch
from evaluation.types import CompilerOutput

REQUESTED_BY = "load_inline"
CALL = "call.json"
LIMIT_FACTOR = 4
"""Build time as a multiple of the task's limit: PyTorch's headers alone take up to a minute."""
MAX_LIBRARIES = 16
_SCRIPT = Path(build_torch.__file__)
_PATH = f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin"
_LIBRARY = re.compile(r"[A-Za-z_]\w{0,99}\.[0-9a-f]{40}\.so")


def requested(files: Mapping[str, str]) -> bool:
    """Return whether an implementation has an extension to build."""
    return any(REQUESTED_BY in text for text in files.values())


def requests_cuda(files: Mapping[str, str]) -> bool:
    """Return whether an extension has sources in CUDA, which only a machine with a GPU builds."""
    calls = (
        node
        for source in (Source(*each) for each in files.items() if REQUESTED_BY in each[1])
        for node in source.nodes
        if isinstance(node, ast.Call) and source.path(node.func).endswith(REQUESTED_BY)
    )
    return any(_cuda_sources(call) for call in calls)


def _cuda_sources(call: ast.Call) -> bool:
    """Return whether a call of `load_inline` names sources in CUDA: by name, or in third place."""
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    given = named.get("cuda_sources", call.args[2] if len(call.args) > 2 else None)
    if given is None:
        return False
    items = given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]
    return not all(isinstance(item, ast.Constant) and not item.value for item in items)


def key() -> str:
    """Return the compilers that affect a build."""
    toolkit = _toolkit()
    flag = nvcc.DEFAULT_STREAM_FLAG
    cuda = f"{toolkit.tool} for {nvcc.architecture()} {flag}" if toolkit else ""
    return "\n".join(
        (native.compiler_version(), native.target(), cuda, sys.version, _SCRIPT.read_text())
    )


def build(source: Path, seconds: float, call: Mapping[str, Any] | None = None) -> CompilerOutput:
    """Import the file `source` in the sandbox, and move its libraries to `extensions` beside it.

    With a `call` (see `languages.torch`) its module is made and called once. The time limit is
    LIMIT_FACTOR times `seconds`.

    Raises: BuildError; Broken where this machine lacks a tool that any build needs.
    """
    if lacks := lacking():
        raise Broken(lacks)
    folder, toolkit = source.parent, _toolkit()
    kept = folder / build_torch.EXTENSIONS
    kept.mkdir()
    with untrusted_files.scratch(folder.parent, "extensions-") as work:
        env = {
            "PATH": _PATH,
            "TORCH_EXTENSIONS_DIR": str(work),
            "CXX": native.COMPILER,
            "MAX_JOBS": str(len(os.sched_getaffinity(0))),
        }
        readable = [*PYTHON_PATHS, str(_SCRIPT), str(folder)]
        if toolkit:
            env["CUDA_HOME"] = str(toolkit.root)
            env["NVCC_APPEND_FLAGS"] = nvcc.DEFAULT_STREAM_FLAG
            env["TORCH_CUDA_ARCH_LIST"] = _capability(nvcc.architecture())
            readable.append(str(toolkit.root))
        asked = folder / CALL
        asked.write_text(json.dumps(call), encoding="utf-8")
        argv = [sys.executable, "-I", str(_SCRIPT), str(source), str(work), str(asked)]
        limit = LIMIT_FACTOR * seconds
        completed, milliseconds = run_compiler(argv, work, readable, limit, env=env)
        work.chmod(0o700)  # the candidate may have changed it
        _move_libraries(work, kept)
    text = re.sub(rf"(?:{work}|{folder})/(?:[0-9a-f]{{40}}/)?", "", completed.stdout)[-MAX_TEXT:]
    diagnostics, resources = nvcc.read(text)
    code = completed.returncode
    output = CompilerOutput(
        tool=REQUESTED_BY,
        arch=nvcc.architecture() if toolkit else native.target(),
        ok=code == 0,
        duration_ms=milliseconds,
        text=text,
        diagnostics=diagnostics,
        resources=resources,
    )
    if completed.exceeded:
        raise BuildError(f"building its extensions {completed.exceeded}", [output])
    if code == build_torch.REFUSED:
        first = native.first_error(diagnostics) or "\n".join(text.splitlines()[-4:])
        raise BuildError(f"an extension was refused: {first}", [output])
    if code:
        raise BuildError(f"the process that builds extensions ended with code {code}", [output])
    return output


def _toolkit() -> nvcc.Toolkit | None:
    """Return the CUDA toolkit where there is an NVIDIA GPU; C++ needs neither."""
    if device_kind.gpu_vendor() != "nvidia":
        return None
    try:
        return nvcc.toolkit()
    except Broken:
        return None


def _capability(architecture: str) -> str:
    """Return an architecture as PyTorch names it: `sm_90a` -> `9.0a`."""
    return re.sub(r"sm_(\d+)(\d)([af]?)", r"\1.\2\3", architecture)


def lacking() -> str:
    """Return what this machine lacks to build extensions, and how to get it; empty for nothing."""
    if not shutil.which("ninja", path=_PATH):
        return "ninja is not installed; install it (apt-get install ninja-build)"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "Python's headers are not installed; install them (apt-get install python3-dev)"
    return ""


def _move_libraries(work: Path, kept: Path) -> None:
    """Move libraries out of an untrusted folder: regular files only, and a limited number."""
    names = sorted(name for name in os.listdir(work) if _LIBRARY.fullmatch(name))
    for name in names[:MAX_LIBRARIES]:
        untrusted_files.move(work / name, kept / name)
