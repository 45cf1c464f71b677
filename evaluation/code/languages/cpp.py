"""C++: g++ to a shared object behind a generated C header, launched from a loop in C."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.code.building import native
from evaluation.code.building.c_header import c_header, element_type
from evaluation.code.building.c_loop import CPU_LOOP
from evaluation.code.building.compile_jobs import Job, compile_all
from evaluation.code.languages import Language, Texts, TrivialSource
from evaluation.types import CompilerOutput, Diagnostic

if TYPE_CHECKING:
    from evaluation.tasks.operator import Operator
    from evaluation.tasks.spec import Task

BASE_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fopenmp")
SOURCE_FLAGS = frozenset(
    "-O1 -O2 -O3 -Ofast -ffast-math -funroll-loops -march=native -mtune=native"
    " -mprefer-vector-width=256 -mprefer-vector-width=512 -fno-math-errno -fno-trapping-math"
    " -fassociative-math -ffp-contract=fast -fno-signed-zeros -fopenmp-simd".split()
)
MAX_ADDRESS_BYTES = 4 << 30
"""Address space of g++."""
LIBRARY, LOOP_FILE = "kernel.so", "replay.cpp"
_ALLOWED = re.compile("|".join(map(re.escape, SOURCE_FLAGS)))
_ENTRY = """\
/* How many threads this machine grants. */
static inline int arena_threads(void) {
#ifdef ARENA_THREADS
    return ARENA_THREADS;
#else
    return omp_get_max_threads();
#endif
}

#ifdef __cplusplus
extern "C"
#endif
int {name}(const {name}_args* args);"""

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


class Cpp(Language):
    name = "cpp"
    suffix = ".cpp"
    texts = TEXTS
    loader = "c_kernel"
    travels = True
    dtypes = frozenset({"float32"})
    kinds = ("cpu",)

    def header(self, operator: Operator) -> str:
        includes = "#include <omp.h>\n#include <stdint.h>"
        return c_header(operator, {"dtype": element_type(operator)}, includes, _ENTRY)

    def check(self, files: Mapping[str, str], task: Task) -> None:
        for text in files.values():
            _source_flags(text)
        native.check_rules(files, native.RULES)

    def key(self, files: Mapping[str, str], task: Task) -> str:
        compiler = (native.compiler_version(), *BASE_FLAGS, native.target())
        return "\n".join((*compiler, CPU_LOOP, self.header(task.operator)))

    def build(self, files: Mapping[str, str], task: Task, folder: Path) -> Sequence[CompilerOutput]:
        entry = task.operator.name
        flags = _source_flags(files[entry + self.suffix])
        units = [*(name for name in files if name.endswith(self.suffix)), LOOP_FILE]
        argv = (native.COMPILER, *BASE_FLAGS, *flags, *units)
        return compile_all(
            [Job(native.COMPILER, native.target(), argv, _read, LIBRARY)],
            {**files, f"{entry}.h": self.header(task.operator), LOOP_FILE: CPU_LOOP},
            folder,
            ("/etc/gcc",),
            task.operator.limits.seconds,
            entry,
            MAX_ADDRESS_BYTES,
        )


def _read(output: str) -> tuple[Sequence[Diagnostic], dict[str, dict[str, int]]]:
    return native.diagnostics(output), {}


def _source_flags(source: str) -> list[str]:
    return native.source_flags(source, _ALLOWED, " ".join(sorted(SOURCE_FLAGS)))


LANGUAGE = Cpp()
