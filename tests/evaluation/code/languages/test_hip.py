"""A HIP answer is compiled by nvcc behind a header of HIP's names, by hipcc where that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evaluation.code.building import hipcc, nvcc
from evaluation.code.languages import hip, languages
from evaluation.errors import Broken, BuildError, Rejected
from evaluation.judge.request import Request
from evaluation.kinds.kernel.builds import build
from evaluation.kinds.kernel.judge import evaluate
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.workspace_files import starter_files
from evaluation.tasks.spec import Task
from evaluation.types import Reason, Verdict
from tests.conftest import skip_or_fail
from tests.evaluation.code.languages.machine import needs_nvcc, without_gpu

HIP = languages()["hip"]
FOLDER = Path(__file__).parent / "operators"
KERNEL = (FOLDER / "shifted" / "baseline" / "hip.hip").read_text()

EVERYTHING = """\
#include "shifted.h"
#include <hip/hip_cooperative_groups.h>

template <int ROWS>
__global__ __launch_bounds__(256) void every(const arena_t* x, const float* bias, arena_t* out,
                                             int64_t count, int64_t cols, float by) {
    HIP_DYNAMIC_SHARED(float, tile)
    int64_t at = hipBlockIdx_x * (int64_t)hipBlockDim_x + hipThreadIdx_x;
    float v = at < count ? arena_float(x[at]) + __builtin_nontemporal_load(bias) : 0.f;
    for (int d = warpSize / 2; d > 0; d >>= 1) v += __shfl_down(v, d);
    v += __shfl_xor(v, 1) + __shfl_up(v, 1, warpSize) + __shfl(v, 0);
    unsigned long long votes = __ballot(v > 0);
    if (__any(v > 1) && !__all(v < 2)) v += __popcll(votes) + __popcll(__activemask());
    tile[threadIdx.x] = v + __lane_id() + ROWS;
    __syncthreads();
    unsafeAtomicAdd(tile, 1.f);
    atomicMax((int*)tile + 1, 3);
    __half half = __shfl_xor(__float2half(v), 1);
    __hip_bfloat16 brain = __shfl_down(__float2bfloat16(v), 1);
    v = tile[threadIdx.x] + __half2float(half) + __bfloat162float(brain);
    cooperative_groups::this_thread_block().sync();
    v += cooperative_groups::coalesced_threads().size();
    __builtin_nontemporal_store(v, tile + 2);
    if (at < count) out[at] = arena_value((v + bias[at % cols]) * by);
}

extern "C" int shifted(const shifted_args* args, hipStream_t stream) {
    int64_t count = args->rows * args->cols;
    int device = 0, number = 0;
    if (hipGetDevice(&device) != hipSuccess) return 1;
    for (hipDeviceAttribute_t attribute :
         {hipDeviceAttributeMultiprocessorCount, hipDeviceAttributeWarpSize,
          hipDeviceAttributeMaxSharedMemoryPerBlock, hipDeviceAttributeL2CacheSize})
        if (hipError_t error = hipDeviceGetAttribute(&number, attribute, device)) return error;
    hipFuncSetAttribute(reinterpret_cast<const void*>(every<2>),
                        hipFuncAttributeMaxDynamicSharedMemorySize, 65536);
    hipOccupancyMaxActiveBlocksPerMultiprocessor(&number, every<2>, 256, 1024);
    void* space = nullptr;
    hipMallocAsync(&space, 4, stream);
    hipMemsetAsync(space, 0, 4, stream);
    hipMemcpyAsync(args->out, space, 2, hipMemcpyDeviceToDevice, stream);
    hipFreeAsync(space, stream);
    hipEvent_t event;
    hipEventCreateWithFlags(&event, hipEventDisableTiming);
    hipEventRecord(event, stream);
    hipStreamWaitEvent(stream, event, 0);
    hipEventDestroy(event);
    hipLaunchKernelGGL(HIP_KERNEL_NAME(every<2>), dim3((count + 255) / 256), dim3(256), 1024,
                       stream, args->x, args->bias, args->out, count, args->cols, args->by);
    every<1><<<1, 256, 1024, stream>>>(args->x, args->bias, args->out, count, args->cols,
                                       args->by);
    return hipGetLastError();
}
"""


@pytest.fixture
def task() -> Task:
    return load_task(FOLDER, "shifted", "torch-to-hip")


@needs_nvcc
@pytest.mark.parametrize("source", [KERNEL, EVERYTHING], ids=["baseline", "everything"])
@pytest.mark.usefixtures("every_dtype")
def test_hips_names_compile_for_every_dtype(source: str, task: Task, cache: Path) -> None:
    made = build(task, "hip", {"shifted.hip": source}, cache)
    names = {path.name for path in made.folder.iterdir()}
    assert {f"kernel.{dtype}.so" for dtype in task.dtypes} <= names
    for output in made.outputs[:3]:
        assert output.ok
        assert all(used["registers"] > 0 for used in output.resources.values())
        assert not output.diagnostics


@needs_nvcc
@pytest.mark.usefixtures("everywhere")
def test_without_hipcc_nothing_is_said_of_amds_gpus(
    task: Task, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hipcc, "compiler", lambda: "")
    outputs = build(task, "hip", {"shifted.hip": KERNEL}, cache).outputs
    assert {output.tool.split()[0] for output in outputs} == {"nvcc"}


@needs_nvcc
def test_a_mistake_is_told_with_its_line(task: Task, cache: Path) -> None:
    with pytest.raises(BuildError, match=r"shifted\.hip:\d+: identifier \"hipGetLastEror\""):
        build(task, "hip", {"shifted.hip": KERNEL.replace("LastError", "LastEror")}, cache)


@needs_nvcc
def test_a_wave_of_so_many_lanes_is_noted_when_compiling(task: Task, cache: Path) -> None:
    source = KERNEL + "__device__ int lane() { return threadIdx.x & 31; }\n"
    (note,) = build(task, "hip", {"shifted.hip": source}, cache).outputs[0].diagnostics
    assert (note.file, note.severity) == ("shifted.hip", "note")
    assert note.line == source.count("\n")
    assert note.message.startswith("assumes a wave of 32 lanes")


@pytest.mark.parametrize(
    ("line", "lanes"),
    [
        ("int lane = threadIdx.x & 31;", [32]),
        ("int lane = threadIdx.x % 32u;", [32]),
        ("int wave = threadIdx.x >> 5;", [32]),
        ("int wave = threadIdx.x / 64;", [64]),
        ("int lane = threadIdx.x & 0x3f;", [64]),
        ("v += __shfl_down(v, 1, 32);", [32]),
        ("v += __shfl_xor(f(v, 2), 16, 64);", [64]),
        ("v += __shfl_xor_sync(0xffffffff, v, 1);", [32]),
        ("auto all = 0xffffffffffffffffull;", [64]),
        ("int lane = threadIdx.x % warpSize;  // not & 31", []),
        ("v += __shfl_down(v, 1, warpSize);", []),
        ("int tiles = rows / 64, half = bits >> 5;", []),
        ("int low = code & 310, high = code >> 50, x = n / 320;", []),
    ],
)
def test_literal_widths_of_a_wave_are_found(line: str, lanes: list[int]) -> None:
    notes = list(hip.wave_width_notes("a.hip", f"\n{line}\n"))
    assert [note.message.split("wave of ")[1].split()[0] for note in notes] == [
        str(number) for number in lanes
    ]
    assert all(note.line == 2 for note in notes)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("#include <hipblas/hipblas.h>", "library-wrapper"),
        ("#include <rocblas/rocblas.h>", "library-wrapper"),
        ("#include <rocwmma/rocwmma.hpp>", "library-wrapper"),
        ("#include <cuda_runtime.h>", "not-hip"),
        ("void f() { cudaDeviceSynchronize(); }", "not-hip"),
        ("void f() { hipDeviceSetLimit(hipLimitStackSize, 1); }", "device-state"),
        ("void f() { hipIpcCloseMemHandle(0); }", "foreign-memory"),
        ("void f() { hipStreamWaitValue64(0, 0, 1, 0); }", "waiting-work"),
        ("void f() { system(0); }", "system-call"),
    ],
)
def test_breaches_are_rejected_with_their_line(line: str, rule: str, task: Task) -> None:
    with pytest.raises(Rejected, match=r"shifted\.hip:1:") as caught:
        HIP.check({"shifted.hip": f"{line}\n{KERNEL}"}, task)
    assert caught.value.rule == rule


def test_hip_by_its_own_names_is_not_rejected(task: Task) -> None:
    HIP.check({"shifted.hip": EVERYTHING}, task)


def test_the_words_of_hipcc_become_numbers() -> None:
    end = "[-Rpass-analysis=kernel-resource-usage]"
    said = "\n".join(
        f"shifted.hip:4:1: remark: {words} {end}"
        for words in (
            "Function Name: _Z5scalePf",
            "    TotalSGPRs: 18",
            "    VGPRs: 12",
            "    AGPRs: 0",
            "    ScratchSize [bytes/lane]: 16",
            "    Dynamic Stack: False",
            "    Occupancy [waves/SIMD]: 8",
            "    SGPRs Spill: 1",
            "    VGPRs Spill: 2",
            "    LDS Size [bytes/block]: 1024",
        )
    )
    diagnostics, resources = hipcc.read(f"{said}\nshifted.hip:7:3: error: use of undeclared 'x'\n")
    (used,) = resources.values()
    assert used == {
        "scalar_registers": 18,
        "vector_registers": 12,
        "accumulation_registers": 0,
        "stack_bytes": 16,
        "waves_per_simd": 8,
        "scalar_spills": 1,
        "vector_spills": 2,
        "shared_bytes": 1024,
    }
    assert [(d.line, d.severity) for d in diagnostics] == [(7, "error")]


@pytest.fixture
def install_hipcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Put a hipcc of a version on PATH that compiles for all GPUs or none."""
    found = (hipcc.compiler, hipcc.release, hipcc.knows, hipcc.architectures_here)

    def install(version: str, code: int) -> None:
        program = tmp_path / "hipcc"
        program.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo "HIP version: {version}" || exit {code}\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        for each in found:
            each.cache_clear()

    yield install
    for each in found:
        each.cache_clear()


@without_gpu
@pytest.mark.usefixtures("everywhere")
def test_flags_are_translated_for_hipcc(install_hipcc: Callable[..., None]) -> None:
    install_hipcc("6.4", code=0)
    flags = ["--use_fast_math", "-maxrregcount=64", "-O2"]
    first, second, tried = hipcc.jobs(["a.hip"], flags, ["float32", "float16"], libraries=True)
    assert (first.arch, second.arch) == ("gfx942 float32", "gfx942 float16")
    assert (first.library, second.library) == ("kernel.float32.so", "kernel.float16.so")
    assert (tried.arch, tried.library) == ("gfx90a", "")
    assert {"-fapprox-func", "-O2", "-DARENA_FLOAT32=1", "HIP_PLATFORM=amd"} <= set(first.argv)
    assert "-ffast-math" not in first.argv
    assert not any("maxrregcount" in word for word in first.argv)
    assert {job.arch for job in hipcc.jobs(["a.hip"], flags, ["float32"], libraries=False)} == {
        "gfx942",
        "gfx90a",
    }


def test_the_workspace_speaks_hip(task: Task) -> None:
    files = starter_files(task)
    assert "typedef __hip_bfloat16 arena_t;" in files["shifted.h"]
    assert "#include <hip/hip_runtime.h>" in files["shifted.h"]
    assert "const shifted_args* args, hipStream_t stream)" in files["shifted.hip"]
    assert "`warpSize`" in files["TASK.md"]
    assert "cuda" not in files["shifted.h"]
    ours = starter_files(load_task(FOLDER, "shifted", "hip-to-hip"))
    assert ours["shifted.hip"] == KERNEL


@needs_nvcc
@without_gpu
def test_without_a_gpu_a_verdict_is_skipped_after_compiling(task: Task, cache: Path) -> None:
    report = evaluate(Request(task, {"shifted.hip": KERNEL}, cache))
    assert (report.verdict, report.reason) == (Verdict.SKIPPED, Reason.NO_DEVICE)
    assert "no GPU is here" in report.message


@needs_nvcc
@pytest.mark.usefixtures("everywhere")
def test_amds_gpus_are_tried_beside_the_one_that_is_here(task: Task, cache: Path) -> None:
    if not hipcc.compiler():
        skip_or_fail("no hipcc is here")
    outputs = build(task, "hip", {"shifted.hip": KERNEL}, cache).outputs
    tried = {output.arch: output for output in outputs if output.tool.startswith("hipcc")}
    assert tried["gfx90a"].ok and tried["gfx90a"].resources
    assert all(output.ok for output in tried.values()), "what hipcc does not know is not tried"


@pytest.fixture
def on_an_amd_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if one were here: what is built is not run."""
    if not hipcc.compiler():
        skip_or_fail("no hipcc is here")
    monkeypatch.setattr(hip, "_built_by_hipcc", lambda: True)
    monkeypatch.setattr(hipcc, "architectures_here", lambda: ("gfx90a",))


@pytest.mark.usefixtures("every_dtype", "on_an_amd_gpu")
def test_hipcc_builds_every_dtype_and_says_what_a_kernel_takes(task: Task, cache: Path) -> None:
    outputs = build(task, "hip", {"shifted.hip": KERNEL}, cache).outputs
    assert {o.arch for o in outputs} >= {f"gfx90a {dtype}" for dtype in task.dtypes}
    for output in outputs:
        assert output.ok, output.text
        (used,) = output.resources.values()
        assert used["vector_registers"] > 0


@without_gpu
def test_where_only_hipcc_is_installed_it_builds_and_nothing_runs(
    task: Task, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not hipcc.compiler():
        skip_or_fail("no hipcc is here")
    monkeypatch.setattr(nvcc, "compiler", lambda: "")
    monkeypatch.setattr(hipcc, "ARCHITECTURES", ("gfx90a",))
    report = evaluate(Request(task, {"shifted.hip": KERNEL}, cache))
    assert (report.verdict, report.reason) == (Verdict.SKIPPED, Reason.NO_DEVICE)
    (built,) = (gate for gate in report.gates if gate.compiler)
    assert {output.tool.split()[0] for output in built.compiler} == {"hipcc"}


@without_gpu
@pytest.mark.usefixtures("everywhere")
def test_a_hipcc_that_knows_no_gpu_of_ours_says_so(install_hipcc: Callable[..., None]) -> None:
    install_hipcc("4.0", code=1)
    with pytest.raises(Broken, match=r"hipcc 4\.0 compiles neither for gfx942 nor gfx90a"):
        hipcc.architecture()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("__global__ void k(float* x) { __shared__ float t[20000]; t[threadIdx.x] = x[0];"
         " __syncthreads(); x[1] = t[threadIdx.x ^ 1]; }", "local memory \\(80000\\) exceeds"),
        ("__device__ float f(float); __global__ void k(float* x) { *x = f(*x); }",
         "undefined hidden symbol: f"),
        ("int f(); int g() { return f(); }", "undefined reference to `f"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("on_an_amd_gpu")
def test_what_hipcc_says_of_no_line_is_told(
    code: str, message: str, task: Task, cache: Path
) -> None:
    with pytest.raises(BuildError, match=f"refused the source for gfx90a.*{message}"):
        build(task, "hip", {"shifted.hip": f"{KERNEL}\n{code}\n"}, cache)
