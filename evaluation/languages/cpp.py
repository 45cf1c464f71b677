"""C++: g++ to a shared object behind a generated C header, launched from a loop in C."""

from __future__ import annotations

import ctypes
import functools
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation import sandbox
from evaluation.errors import Broken, BuildError, Rejected, SubmissionError
from evaluation.languages import Kernel, Launch, Slot
from evaluation.types import Argument, CompilerOutput, Diagnostic, Reason

if TYPE_CHECKING:
    from evaluation.task import Task

COMPILER = "g++"
BASE_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fopenmp")
SOURCE_FLAGS = frozenset(
    "-O1 -O2 -O3 -Ofast -ffast-math -funroll-loops -march=native -mtune=native"
    " -mprefer-vector-width=256 -mprefer-vector-width=512 -fno-math-errno -fno-trapping-math"
    " -fassociative-math -ffp-contract=fast -fno-signed-zeros -fopenmp-simd".split()
)
BUILD_MEMORY = 4 << 30
ARTEFACT = "kernel.so"

# The loop that launches: one call from Python for a whole window.
REPLAY = """
extern "C" int arena_replay(int (*launch)(const void*), const char* slots, long stride, long ring,
long first,
                            long count) {
    for (long i = 0; i < count; ++i) {
        int code = launch(slots + (first + i) % ring * stride);
        if (code) return code;
    }
    return 0;
}
"""

_FLAGS = re.compile(r"^\s*//\s*arena:\s*flags\s+(?P<flags>.+)$", re.MULTILINE)
_DIAGNOSTIC = re.compile(
    r"^(?P<file>[^:\s]+):(?P<line>\d+):(?:\d+:)? "
    r"(?P<severity>fatal error|error|warning): (?P<text>.*)$",
    re.MULTILINE,
)
_SYSTEM_CALLS = "fork|vfork|execve?|execl?p?|system|popen|ptrace|syscall|socket|dlopen|dlsym"
_BLATANT = (
    ("system-call", re.compile(rf"\b(?:{_SYSTEM_CALLS})\s*\(")),
    ("system-call", re.compile(r"\b(?:asm|__asm__|__asm)\b[^;]*\b(?:syscall|int\s+\$?0x80)\b")),
    ("library-wrapper", re.compile(r"#\s*include\s*<(?:torch|ATen|mkl|cblas|dnnl|oneapi)[/.\w]*>")),
    ("machine-files", re.compile(r"\"/(?:proc|dev|sys)/")),
)


class Cpp:
    name = "cpp"
    suffix = ".cpp"
    dtypes = frozenset({"float32"})

    def check(self, files: Mapping[str, str], task: Task) -> None:
        for name, text in files.items():
            _source_flags(text)
            code = _without_comments(text)
            for rule, pattern in _BLATANT:
                if match := pattern.search(code):
                    line = code.count("\n", 0, match.start()) + 1
                    found = " ".join(match.group().split())
                    raise Rejected(rule, f"{name}:{line}: `{found}` has no place in a kernel")

    def key(self, task: Task) -> str:
        return "\n".join((compiler_version(), *BASE_FLAGS, REPLAY, _target(), _header(task)))

    def build(self, files: Mapping[str, str], task: Task, folder: Path) -> Sequence[CompilerOutput]:
        header_name = f"{task.operator.name}.h"
        sources = {**files, header_name: _header(task), "replay.cpp": REPLAY}
        for name, text in sources.items():
            (folder / name).write_text(text)
        flags = _source_flags(files[task.operator.name + self.suffix])
        units = [*(name for name in files if name.endswith(self.suffix)), "replay.cpp"]
        argv = [COMPILER, *BASE_FLAGS, *flags, *units, "-o", ARTEFACT]
        policy = sandbox.Policy(
            walls=sandbox.walls(),
            readable=("/etc/gcc",),
            writable=(str(folder),),
            memory_bytes=BUILD_MEMORY,
            processes=64,
        )
        seconds = task.operator.limits.seconds
        started = time.perf_counter()
        done = sandbox.run(argv, policy, timeout=seconds, cwd=folder, env={"TMPDIR": str(folder)})
        built = done.returncode == 0 and (folder / ARTEFACT).is_file()
        text = done.stdout.replace(f"{folder}/", "")[-64_000:]
        output = CompilerOutput(
            tool="g++",
            arch=_target(),
            ok=built,
            duration_ms=(time.perf_counter() - started) * 1e3,
            text=f"$ {shlex.join(argv)}\n{text}",
            diagnostics=tuple(
                Diagnostic(m["file"], int(m["line"]), m["severity"], m["text"])
                for m in _DIAGNOSTIC.finditer(text)
            ),
        )
        if done.returncode < 0:
            raise BuildError(f"the build took longer than {seconds:g} s", [output])
        if not built:
            errors = [d for d in output.diagnostics if "error" in d.severity]
            first = (
                f"{errors[0].file}:{errors[0].line}: {errors[0].message}" if errors else text[-500:]
            )
            raise BuildError(f"g++ refused the source: {first}", [output])
        return [output]

    def judged_here(self) -> str:
        return ""

    def load(self, folder: Path, entry: str) -> Kernel:
        try:
            library = ctypes.CDLL(str(folder / ARTEFACT))
        except OSError as error:
            raise SubmissionError(Reason.BUILD_ERROR, f"cannot be loaded: {error}") from error
        if not hasattr(library, entry):
            raise SubmissionError(
                Reason.MISSING_ENTRY, f'no function `{entry}` in the library; declare it extern "C"'
            )
        return CppKernel(library, entry)


class CppKernel:
    """A C function that takes one struct of pointers, sizes and scalars."""

    def __init__(self, library: ctypes.CDLL, entry: str) -> None:
        self.entry = entry
        self.function = getattr(library, entry)
        self.replay = library.arena_replay
        self.replay.argtypes = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_long] * 4]

    def bind(self, arguments: Sequence[Argument], slots: Sequence[Slot]) -> Launch:
        fields = fields_of(arguments, slots[0])
        struct: Any = type("Arguments", (ctypes.Structure,), {"_fields_": list(fields.items())})
        table = (struct * len(slots))()
        for row, slot in zip(table, slots, strict=True):
            for name in fields:
                value = slot[name]
                setattr(row, name, value if isinstance(value, (int, float)) else value.data_ptr())
        launch = ctypes.cast(self.function, ctypes.c_void_p)
        stride, ring = ctypes.sizeof(struct), len(slots)

        def run(first: int, count: int) -> None:
            code = self.replay(launch, ctypes.addressof(table), stride, ring, first, count)
            if code:
                raise SubmissionError(Reason.CALL_ERROR, f"`{self.entry}` returned {code}, not 0")

        return run


def fields_of(arguments: Sequence[Argument], slot: Slot) -> dict[str, type[Any]]:
    """The fields of the generated header's struct, in order: pointers, then sizes, then scalars."""
    named = {argument.name: argument for argument in arguments}
    fields: dict[str, type[Any]] = {
        a.name: ctypes.c_void_p for a in arguments if a.role != "scalar"
    }
    fields |= {name: ctypes.c_int64 for name in slot if name not in named}
    for argument in arguments:
        if argument.role == "scalar":
            fields[argument.name] = ctypes.c_int64 if argument.dtype == "int64" else ctypes.c_float
    return fields


def _header(task: Task) -> str:
    from evaluation.starter import c_header

    return c_header(task.operator)


def _source_flags(source: str) -> list[str]:
    """The flags a source asks for by `// arena: flags ...`. Raises Rejected for one that is not on
    the list.
    """
    flags = [flag for match in _FLAGS.finditer(source) for flag in match["flags"].split()]
    for flag in flags:
        if flag not in SOURCE_FLAGS:
            known = " ".join(sorted(SOURCE_FLAGS))
            raise Rejected(
                "compiler-flag", f"`{flag}` is not among the flags a source may ask for: {known}"
            )
    return flags


def _without_comments(source: str) -> str:
    """The source with comments blanked, lines kept."""

    def blank(match: re.Match[str]) -> str:
        return match.group() if match.group()[0] in "\"'" else "\n" * match.group().count("\n")

    return re.sub(
        r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|//[^\n]*|/\*.*?\*/",
        blank,
        source,
        flags=re.DOTALL,
    )


@functools.cache
def compiler_version() -> str:
    """The compiler's version line. Raises Broken without a compiler."""
    if not shutil.which(COMPILER):
        raise Broken(f"{COMPILER} is not installed; install it (Debian: apt-get install g++)")
    return subprocess.run([COMPILER, "--version"], capture_output=True, text=True).stdout.partition(
        "\n"
    )[0]


@functools.cache
def _target() -> str:
    """The processor that -march=native means here."""
    if not shutil.which(COMPILER):
        return sys.platform
    query = [COMPILER, "-march=native", "-Q", "--help=target"]
    text = subprocess.run(query, capture_output=True, text=True).stdout
    match = re.search(r"-march=\s+(\S+)", text)
    return match[1] if match else "native"


LANGUAGE = Cpp()
