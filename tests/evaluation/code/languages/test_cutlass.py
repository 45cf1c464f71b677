"""CUDA sources may include CUTLASS's headers where their package is there."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from evaluation.code.languages import cuda, languages
from evaluation.errors import Rejected, Unsupported
from evaluation.kinds.kernel.builds import build
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.spec import Task
from tests.evaluation.code.languages.machine import needs_nvcc

FOLDER = Path(__file__).parent / "operators"
KERNEL = (FOLDER / "shifted" / "baseline" / "cuda.cu").read_text()
OF_CUTE = """\
#include "shifted.h"
#include <cute/tensor.hpp>

__global__ void shift_kernel(const arena_t* x, const float* bias, arena_t* out, int count,
                             int cols, float by) {
    auto in = cute::make_tensor(cute::make_gmem_ptr(x), cute::make_layout(count));
    auto to = cute::make_tensor(cute::make_gmem_ptr(out), cute::make_layout(count));
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) to(at) = arena_value((arena_float(in(at)) + bias[at % cols]) * by);
}

extern "C" int shifted(const shifted_args* args, cudaStream_t stream) {
    int count = int(args->rows * args->cols);
    shift_kernel<<<(count + 255) / 256, 256, 0, stream>>>(args->x, args->bias, args->out, count,
                                                          int(args->cols), args->by);
    return cudaGetLastError();
}
"""
lacking = not importlib.util.find_spec(cuda.CUTLASS)


@pytest.fixture
def task() -> Task:
    return load_task(FOLDER, "shifted", "torch-to-cuda")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with one header of CUTLASS's folder."""
    headers = tmp_path / cuda.CUTLASS / "source" / "include" / "cutlass"
    headers.mkdir(parents=True)
    (headers.parents[2] / "__init__.py").touch()
    (headers / "version.h").write_text("#define CUTLASS_MAJOR 4\n")
    (headers / "shift.h").write_text("#define SHIFTED_BY(value) ((value) + 0.0f)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return headers


@needs_nvcc
def test_source_with_a_header_of_the_package_compiles(
    task: Task, package: Path, cache: Path
) -> None:
    source = KERNEL.replace("\n#include", "\n#include <cutlass/shift.h>\n#include", 1)
    source = source.replace("+ bias[at % cols])", "+ SHIFTED_BY(bias[at % cols]))")
    assert all(each.ok for each in build(task, "cuda", {"shifted.cu": source}, cache).outputs)


@needs_nvcc
def test_version_of_the_package_is_part_of_a_builds_key(task: Task, package: Path) -> None:
    files = {"shifted.cu": f"#include <cutlass/shift.h>\n{KERNEL}"}
    keys = {languages()["cuda"].key(files, task)}
    (package / "version.h").write_text("#define CUTLASS_MAJOR 5\n")
    keys.add(languages()["cuda"].key(files, task))
    plain = languages()["cuda"].key({"shifted.cu": KERNEL}, task)
    assert len(keys) == 2 and plain not in keys


@needs_nvcc
@pytest.mark.skipif(not lacking, reason=f"{cuda.CUTLASS} is installed")
def test_source_without_the_package_is_unsupported_and_names_it(task: Task, cache: Path) -> None:
    with pytest.raises(Unsupported, match=cuda.CUTLASS_REQUIREMENT):
        build(task, "cuda", {"shifted.cu": OF_CUTE}, cache)
    assert build(task, "cuda", {"shifted.cu": KERNEL}, cache).outputs, "others are built"


@pytest.mark.parametrize("header", ["cute/tensor.hpp", "cutlass/gemm/device/gemm.h"])
def test_headers_of_cutlass_are_allowed(header: str, task: Task) -> None:
    languages()["cuda"].check({"shifted.cu": f"#include <{header}>\n{KERNEL}"}, task)


@pytest.mark.parametrize("header", ["cublasLt.h", "cudnn.h", "thrust/reduce.h", "torch/all.h"])
def test_headers_of_libraries_are_forbidden(header: str, task: Task) -> None:
    with pytest.raises(Rejected) as caught:
        languages()["cuda"].check({"shifted.cu": f"#include <{header}>\n{KERNEL}"}, task)
    assert caught.value.rule == "library-wrapper"


@needs_nvcc
@pytest.mark.slow
@pytest.mark.skipif(lacking, reason=f"needs {cuda.CUTLASS_REQUIREMENT}")
def test_kernel_over_tensors_of_cute_compiles(task: Task, cache: Path) -> None:
    assert all(each.ok for each in build(task, "cuda", {"shifted.cu": OF_CUTE}, cache).outputs)
