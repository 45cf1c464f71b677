"""C++: g++ to a shared object behind a generated C header, launched from a loop in C."""

from __future__ import annotations

import ctypes
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.building import native
from evaluation.building.c_header import c_header
from evaluation.errors import BuildError, SubmissionError
from evaluation.languages import Kernel
from evaluation.languages._texts import Texts, TrivialSource
from evaluation.sandbox import launch, resource_watch
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import Policy
from evaluation.types import Argument, BufferSet, CompilerOutput, Launch, Reason

if TYPE_CHECKING:
    from evaluation.tasks.operator import Operator
    from evaluation.tasks.spec import Task

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

_ALLOWED = re.compile("|".join(map(re.escape, SOURCE_FLAGS)))


TEXTS = Texts(
    skeleton="""\
// arena: flags -O2
#include "{name}.h"

// Fill {outputs} from the inputs and return 0.
extern "C" int {name}(const {name}_args* args) {{
    return 1;
}}
""",
    convention=(
        "`{file}` includes `{name}.h` and defines `{name}`, which fills {outputs} and returns 0.\n"
        "It is compiled as C++17 with OpenMP into a shared library; use at most `arena_threads()`\n"
        "threads. A line `// arena: flags -O3 -march=native` at its top adds compiler flags."
    ),
    rules=(
        "- The computation is yours: C++17, intrinsics and OpenMP. No other library is linked.\n"
        "- No files, processes or network, and no state kept from one call to the next."
    ),
    trivial=TrivialSource(
        {
            "zeros": "0.0f",
            "constant": "1.0f",
            "copy": "args->{input}[i % ({input_size})]",
            "stale": "args->{output}[i]",
        },
        "    for (int64_t i = 0; i < {output_size}; ++i) args->{output}[i] = {value};\n",
        """\
#include "{name}.h"

extern "C" int {name}(const {name}_args* args) {{
{each}    return 0;
}}
""",
    ),
    profiled=False,
)


class Cpp:
    texts = TEXTS
    name = "cpp"
    suffix = ".cpp"
    dtypes = frozenset({"float32"})
    kinds = ("cpu",)

    def header(self, operator: Operator) -> str:
        return c_header(operator)

    def check(self, files: Mapping[str, str], task: Task) -> None:
        for text in files.values():
            _source_flags(text)
        native.refuse_breaches(files, native.BREACHES)

    def key(self, files: Mapping[str, str], task: Task) -> str:
        return "\n".join(
            (
                native.compiler_version(),
                *BASE_FLAGS,
                REPLAY,
                native.target(),
                c_header(task.operator),
            )
        )

    def compiles(self, files: Mapping[str, str], kind: str) -> bool:
        return False

    def build(self, files: Mapping[str, str], task: Task, folder: Path) -> Sequence[CompilerOutput]:
        header_name = f"{task.operator.name}.h"
        sources = {**files, header_name: c_header(task.operator), "replay.cpp": REPLAY}
        for name, text in sources.items():
            (folder / name).write_text(text)
        flags = _source_flags(files[task.operator.name + self.suffix])
        units = [*(name for name in files if name.endswith(self.suffix)), "replay.cpp"]
        argv = [native.COMPILER, *BASE_FLAGS, *flags, *units, "-o", ARTEFACT]
        policy = Policy(
            features=isolation_features(),
            readable=("/etc/gcc",),
            writable=(str(folder),),
            memory_bytes=BUILD_MEMORY,
            processes=64,
        )
        seconds = task.operator.limits.seconds
        started = time.perf_counter()
        env = {"TMPDIR": str(folder)}
        done = launch.run(
            argv, policy, timeout=seconds, cwd=folder, env=env, limits=resource_watch.BUILD_LIMITS
        )
        built = done.returncode == 0 and (folder / ARTEFACT).is_file()
        text = done.stdout.replace(f"{folder}/", "")[-64_000:]
        output = CompilerOutput(
            tool="g++",
            arch=native.target(),
            ok=built,
            duration_ms=(time.perf_counter() - started) * 1e3,
            text=f"$ {shlex.join(argv)}\n{text}",
            diagnostics=native.diagnostics(text),
        )
        if done.exceeded:
            raise BuildError(f"the build {done.exceeded}", [output])
        if not built:
            first = native.first_error(output.diagnostics) or text[-500:]
            raise BuildError(f"g++ refused the source: {first}", [output])
        return [output]

    def judged_here(self) -> str:
        return ""

    def runs_here(self) -> str:
        return ""

    def prepare(self) -> None:
        """Do nothing: PyTorch is imported already."""

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

    def bind(self, arguments: Sequence[Argument], slots: Sequence[BufferSet]) -> Launch:
        table = native.struct_table(arguments, slots)
        launch = ctypes.cast(self.function, ctypes.c_void_p)
        stride, ring = ctypes.sizeof(table) // len(slots), len(slots)

        def run(first: int, count: int) -> None:
            code = self.replay(launch, ctypes.addressof(table), stride, ring, first, count)
            if code:
                raise SubmissionError(Reason.CALL_ERROR, f"`{self.entry}` returned {code}, not 0")

        return run


def _source_flags(source: str) -> list[str]:
    return native.source_flags(source, _ALLOWED, " ".join(sorted(SOURCE_FLAGS)))


LANGUAGE = Cpp()
