"""A CUDA answer is compiled for every dtype behind one header, wherever nvcc is."""

from __future__ import annotations

import ctypes
import dataclasses
import json
from pathlib import Path

import pytest

from evaluation.code.building import nvcc
from evaluation.code.languages import languages
from evaluation.errors import BuildError, Rejected
from evaluation.judge.request import Request
from evaluation.kinds.kernel.builds import build
from evaluation.kinds.kernel.judge import evaluate
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.workspace_files import starter_files
from evaluation.sandboxed.kernels.c_gpu_kernel import GpuKernel
from evaluation.tasks.spec import Task
from evaluation.types import GateName, Reason, Verdict
from tests.evaluation.code.languages.machine import needs_nvcc, without_gpu

CUDA = languages()["cuda"]
FOLDER = Path(__file__).parent / "operators"
DTYPES = ("float32", "float16", "bfloat16")
KERNEL = (FOLDER / "shifted" / "baseline" / "cuda.cu").read_text()


@pytest.fixture
def task() -> Task:
    return load_task(FOLDER, "shifted", "torch-to-cuda")


def refused(source: str, task: Task, cache: Path) -> BuildError:
    with pytest.raises(BuildError) as caught:
        build(task, "cuda", {"shifted.cu": source}, cache)
    return caught.value


@needs_nvcc
@pytest.mark.usefixtures("every_dtype")
def test_there_is_one_library_for_each_dtype(task: Task, cache: Path) -> None:
    made = build(task, "cuda", {"shifted.cu": KERNEL}, cache)
    here = nvcc.architecture()
    assert [output.arch for output in made.outputs[:3]] == [f"{here} {dtype}" for dtype in DTYPES]
    assert all(output.ok for output in made.outputs)
    assert made.outputs[0].tool.startswith("nvcc ")
    names = {path.name for path in made.folder.iterdir()}
    assert {f"kernel.{dtype}.so" for dtype in DTYPES} <= names
    assert not any(name.startswith("work") for name in names)


@needs_nvcc
def test_what_each_kernel_takes_is_told_with_its_listing(task: Task, cache: Path) -> None:
    for output in build(task, "cuda", {"shifted.cu": KERNEL}, cache).outputs[:3]:
        used = output.resources["shift_kernel"]
        assert 0 < used["registers"] <= 64
        assert used["spill_store_bytes"] == used["spill_load_bytes"] == used["shared_bytes"] == 0
        assert ".visible .entry" in output.listings["shifted.ptx"]
        assert str(cache) not in output.listings["shifted.ptx"]


@needs_nvcc
@pytest.mark.usefixtures("everywhere")
def test_another_architecture_is_tried_and_fails_nobody(
    task: Task, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARENA_CUDA_ARCH", "sm_90a")
    assert build(task, "cuda", {"shifted.cu": KERNEL}, cache).outputs[-1].arch == "sm_100"
    only_here = '#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 900\n#error "for Hopper"\n#endif\n'
    *made, tried = build(task, "cuda", {"shifted.cu": only_here + KERNEL}, cache).outputs
    assert all(output.ok for output in made)
    assert not tried.ok
    assert "for Hopper" in tried.text


@needs_nvcc
@pytest.mark.usefixtures("every_dtype")
def test_the_dtype_chooses_what_is_compiled(task: Task, cache: Path) -> None:
    source = KERNEL + "#if ARENA_FLOAT16\n#error half\n#endif\n"
    error = refused(source, task, cache)
    assert [output.ok for output in error.outputs[:3]] == [True, False, True]
    assert "float16: shifted.cu:" in error.message


@needs_nvcc
def test_a_syntax_error_is_told_with_its_line(task: Task, cache: Path) -> None:
    error = refused(KERNEL.replace("int64_t count =", "int64_t cuont ="), task, cache)
    (first, *_) = error.outputs[0].diagnostics
    assert (first.file, first.severity) == ("shifted.cu", "error")
    assert "count" in KERNEL.splitlines()[first.line - 1]
    assert f"shifted.cu:{first.line}: identifier" in error.message


@needs_nvcc
def test_what_the_assembler_refuses_is_a_build_error(task: Task, cache: Path) -> None:
    source = KERNEL + '__global__ void odd(float* x) { asm("foo.bar %0;" : "=f"(x[0])); }\n'
    assert "Not a name of any known instruction" in refused(source, task, cache).outputs[0].text
    source = (
        KERNEL
        + """__global__ void large(float* x) {
        __shared__ float a[70000];
        a[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = a[threadIdx.x ^ 1];
    }
"""
    )
    assert "too much shared data" in refused(source, task, cache).message


@needs_nvcc
def test_a_missing_entry_point_is_told_apart(task: Task, cache: Path) -> None:
    error = refused(KERNEL.replace("int shifted(", "int drifted("), task, cache)
    assert error.reason is Reason.MISSING_ENTRY
    assert "no function `shifted`" in error.message


@needs_nvcc
def test_a_library_that_is_not_linked_is_a_build_error(task: Task, cache: Path) -> None:
    source = KERNEL.replace("    return cuda", "    cublasCreate_v2();\n    return cuda")
    error = refused('extern "C" int cublasCreate_v2();\n' + source, task, cache)
    assert "undefined reference to `cublasCreate_v2'" in error.outputs[0].text


@needs_nvcc
def test_compiling_for_ever_ends_at_the_limit(task: Task, cache: Path) -> None:
    limits = dataclasses.replace(task.operator.limits, seconds=0.2)
    hurried = dataclasses.replace(task, operator=dataclasses.replace(task.operator, limits=limits))
    source = KERNEL + "// hurried\n"
    assert "compiling took longer than" in refused(source, hurried, cache).message


@needs_nvcc
def test_a_source_reads_nothing_of_the_judge(task: Task, cache: Path) -> None:
    reference = task.operator.folder / "reference.py"
    message = refused(f'#include "{reference}"\n{KERNEL}', task, cache).outputs[0].text
    assert "cannot open source file" in message or "ermission denied" in message


@pytest.mark.parametrize(
    "flags",
    [
        "-use_fast_math -maxrregcount=64",
        "--maxrregcount=255 --fmad=false -O2",
        "-Xptxas -dlcm=cg -Xptxas=-O2 --extra-device-vectorization",
    ],
)
def test_a_source_may_ask_for_flags_that_are_listed(flags: str, task: Task) -> None:
    CUDA.check({"shifted.cu": f"// arena: flags {flags}\n{KERNEL}"}, task)


@pytest.mark.parametrize(
    "flags",
    [
        "-Xcompiler -fplugin=x.so",
        "-include /etc/passwd",
        "--compiler-bindir=/tmp",
        "-maxrregcount=999",
        "-lcublas",
        "-Xptxas --input-as-string",
        "-DARENA_FLOAT32=1",
        "--options-file=x",
    ],
)
def test_any_other_flag_is_rejected_with_those_allowed(flags: str, task: Task) -> None:
    with pytest.raises(Rejected, match="-use_fast_math") as caught:
        CUDA.check({"shifted.cu": f"// arena: flags {flags}\n{KERNEL}"}, task)
    assert caught.value.rule == "compiler-flag"


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("#include <cublas_v2.h>", "library-wrapper"),
        ("#include <thrust/sort.h>", "library-wrapper"),
        ("#include <cublasLt.h>", "library-wrapper"),
        ("#include <torch/extension.h>", "library-wrapper"),
        ("void f() { cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 1); }", "device-state"),
        ("void f(cudaStreamAttrValue v) { v.accessPolicyWindow.num_bytes = 1; }", "device-state"),
        ("void f() { cudaDeviceReset(); }", "device-state"),
        ("void f(void** p) { cudaIpcOpenMemHandle(p, {}, 0); }", "foreign-memory"),
        ("void f() { cuMemImportFromShareableHandle(0, 0, 0); }", "foreign-memory"),
        ("void f(cudaStream_t s) { cuStreamWaitValue32(s, 0, 1, 0); }", "waiting-work"),
        ("void f() { cuGraphAddBatchMemOpNode(0, 0, 0, 0, 0); }", "waiting-work"),
        ('void* f() { return dlopen("libcublas.so", 1); }', "system-call"),
        ('const char* name = "/proc/self/maps";', "machine-files"),
    ],
)
def test_breaches_are_rejected_with_their_line(line: str, rule: str, task: Task) -> None:
    with pytest.raises(Rejected, match=r"shifted\.cu:1:") as caught:
        CUDA.check({"shifted.cu": f"{line}\n{KERNEL}"}, task)
    assert caught.value.rule == rule


def test_what_device_code_needs_is_not_rejected(task: Task) -> None:
    lines = """\
#include <cooperative_groups.h>
#include <cub/block/block_reduce.cuh>
#include <cuda_pipeline.h>
#include <mma.h>
// cublas and cudaIpcOpenMemHandle are only spoken of
__device__ int lane() { int at; asm volatile("mov.u32 %0, %%laneid;" : "=r"(at)); return at; }
"""
    CUDA.check({"shifted.cu": lines + KERNEL}, task)


def test_the_workspace_holds_header_skeleton_and_convention(task: Task) -> None:
    files = starter_files(task)
    header = files["shifted.h"]
    for line in (
        "const arena_t* x;",
        "const float* bias;",
        "    arena_t* out;",
        "int64_t rows;",
        "float by;",
        "typedef __half arena_t;",
        "typedef __nv_bfloat16 arena_t;",
        'extern "C" int shifted(const shifted_args* args, cudaStream_t stream);',
    ):
        assert line in header
    fields = [header.index(f"{name};") for name in ("* x", "* bias", "* out", "rows", "cols", "by")]
    assert fields == sorted(fields)
    assert (
        'extern "C" int shifted(const shifted_args* args, cudaStream_t stream)'
        in (files["shifted.cu"])
    )
    assert header in files["TASK.md"]
    assert "arena_t" in files["TASK.md"]
    ours = starter_files(load_task(FOLDER, "shifted", "cuda-to-cuda"))
    assert ours["shifted.cu"] == KERNEL


@needs_nvcc
@pytest.mark.parametrize("language", ["cuda", "hip"])
def test_a_skeleton_compiles(language: str, cache: Path) -> None:
    task = load_task(FOLDER, "shifted", f"torch-to-{language}")
    made = build(task, language, {task.target_file: starter_files(task)[task.target_file]}, cache)
    assert all(output.ok for output in made.outputs)


@needs_nvcc
@without_gpu
def test_without_a_gpu_a_verdict_is_skipped_after_compiling(task: Task, cache: Path) -> None:
    report = evaluate(Request(task, {"shifted.cu": KERNEL}, cache))
    verdicts = {result.gate: (result.verdict, result.reason) for result in report.gates}
    assert (report.verdict, report.reason) == (Verdict.SKIPPED, Reason.NO_DEVICE)
    assert "no NVIDIA GPU is here" in report.message
    assert verdicts[GateName.COMPILE] == (Verdict.PASSED, None)
    for gate in (GateName.CORRECTNESS, GateName.PERFORMANCE, GateName.GENERALIZATION):
        assert verdicts[gate] == (Verdict.SKIPPED, Reason.NO_DEVICE)
    assert report.seen is None
    report = evaluate(Request(task, {"shifted.cu": "int\n"}, cache))
    assert (report.verdict, report.reason) == (Verdict.FAILED, Reason.BUILD_ERROR)


@needs_nvcc
@pytest.mark.usefixtures("every_dtype")
def test_what_was_built_can_be_loaded_where_nothing_of_it_runs(task: Task, cache: Path) -> None:
    folder = build(task, "cuda", {"shifted.cu": KERNEL}, cache).folder
    assert set(GpuKernel.load(folder, "shifted").libraries) == set(DTYPES)
    library = ctypes.CDLL(str(folder / "kernel.float32.so"))
    library.arena_error.restype = ctypes.c_char_p
    assert library.arena_error(1) == b"invalid argument"
    assert json.loads((folder / "build.json").read_text())[0]["ok"]
