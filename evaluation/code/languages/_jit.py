"""Shared code of languages in Python whose packages compile a kernel when it is first called."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation import device_kind
from evaluation.code.building import nvcc, static_analysis
from evaluation.code.building.compile_jobs import PYTHON_PATHS, run_compiler
from evaluation.code.building.host_code import HostCode
from evaluation.code.languages import Language, _packages, triton
from evaluation.errors import BuildError, Rejected, SubmissionError
from evaluation.sandbox import untrusted_files
from evaluation.sandboxed import build_jit, build_triton
from evaluation.types import CompilerOutput, Reason, Split

if TYPE_CHECKING:
    from evaluation.tasks.spec import Task

_SCRIPTS = (str(build_jit.__file__), str(build_triton.__file__))
MAX_ADDRESS_BYTES = 32 << 30
"""Address space of the process that compiles: these packages map libraries and pools of threads."""


class JitLanguage(Language):
    """A language for NVIDIA GPUs, compiled for this machine's or, without one, for Hopper's."""

    suffix = ".py"
    loader = "host_function"
    own_kernels = True
    optional = True
    package: str
    """The distribution that has the compiler."""
    module: str
    """The module that a source imports."""
    requirement: str
    """The package to install, as pip names it."""
    code: type[HostCode]
    modules: frozenset[str]
    """Packages that a source may import, beside harmless ones of Python."""
    exempt: frozenset[str] = frozenset()
    """Names beyond them that a source may import."""

    @abstractmethod
    def environment(self, arch: str, work: Path) -> Mapping[str, str]:
        """Return the environment variables that select a target such as sm_90a."""

    def readable(self) -> tuple[str, ...]:
        """Return the folders that the compiler reads beyond Python's."""
        return ()

    def check(self, files: Mapping[str, str], task: Task) -> None:
        modules = static_analysis.PURE_MODULES | self.modules | {"torch"}
        for name, text in files.items():
            source = static_analysis.Source(name, text)
            static_analysis.check_source(source, modules, self.exempt)
            code = self.code(source)
            if source.tree.body and not any(map(code.is_kernel, source.nodes)):
                wanted = " or ".join(f"@{decorator}" for decorator in sorted(code.jit))
                raise Rejected("no-kernel", f"{name}: no function is decorated with {wanted}")
            code.check()

    def key(self, files: Mapping[str, str], task: Task) -> str:
        _packages.require(self.module, self.requirement)
        call = json.dumps(_call(task))
        scripts = (Path(script).read_text() for script in _SCRIPTS)
        return "\n".join((self._version(), nvcc.architecture(), call, *scripts))

    def compiles(self, files: Mapping[str, str], kind: str) -> bool:
        return kind == device_kind.GPU

    def build(self, files: Mapping[str, str], task: Task, folder: Path) -> Sequence[CompilerOutput]:
        _packages.require(self.module, self.requirement)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        work, request = folder / "work", folder / "request.json"
        work.mkdir()
        source = str(folder / task.target_file)
        values = {"source": source, "entry": task.operator.name, "language": self.name}
        request.write_text(json.dumps({**values, "arguments": _call(task)}))
        arch = nvcc.architecture()
        completed, milliseconds = run_compiler(
            [sys.executable, "-I", _SCRIPTS[0], str(request), str(work / "result")],
            work,
            (*PYTHON_PATHS, *_SCRIPTS, str(folder), *self.readable()),
            task.operator.limits.seconds,
            env={"OMP_NUM_THREADS": "1", **self.environment(arch, work)},
            max_address_bytes=MAX_ADDRESS_BYTES,
        )
        text = completed.stdout.replace(f"{folder}/", "")[-16_000:]
        result = triton.read_result(work / "result")
        untrusted_files.remove(work)
        output = CompilerOutput(self._version(), arch, False, milliseconds, text)
        if completed.exceeded:
            raise BuildError(f"compiling {completed.exceeded}", [output])
        try:
            output = triton.output_of(result or triton.NO_RESULT, task, output)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise BuildError("the compiler's result cannot be read", [output]) from None
        if output.ok:
            return [output]
        first = output.diagnostics[0]
        if result and result.get("error", {}).get("type") == "MissingEntry":
            raise SubmissionError(Reason.MISSING_ENTRY, first.message)
        message = f"for {arch}: {first.file}:{first.line}: {first.message}"
        raise BuildError(message, [output])

    def judged_here(self) -> str:
        if reason := _packages.lacking(self.module, self.requirement):
            return reason
        if device_kind.gpu_vendor() == "nvidia":
            return ""
        return f"no NVIDIA GPU is here that PyTorch was built for: {self.name} is compiled, not run"

    def _version(self) -> str:
        return f"{self.name} {importlib.metadata.version(self.package)}"


def _call(task: Task) -> list[dict[str, object]]:
    """Return the call to compile, the smallest seen case's, tensors by shape and dtype."""
    return triton.call_of(task, min(task.cases(Split.SEEN), key=task.operator.elements))
