"""A launch goes to the library of its dtype and tells what it returned; stand-ins need no GPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch

from evaluation.errors import SubmissionError
from evaluation.sandboxed.kernels.c_gpu_kernel import GpuKernel
from evaluation.types import Argument, Reason

# A stand-in for a library: what `bind` hands over reaches the entry point, in order.
_STAND_IN = """
#include <cstring>
static int last;  // as the runtime keeps its last error
struct args {{ const void* x; const float* bias; void* out; long rows, cols; float by; }};
extern "C" int shifted(const args* a, void* stream) {{
    if (a->cols == 7) return last = 9;
    std::memset(a->out, {mark} + (int)a->by, a->rows * a->cols);
    return 0;
}}
extern "C" int arena_replay(int (*launch)(const void*, void*), const char* slots, long stride,
                            long ring, long first, long count, void* stream) {{
    for (long i = 0; i < count; ++i)
        if (int code = launch(slots + (first + i) % ring * stride, stream)) return code;
    const int code = last;
    last = 0;
    return code;
}}
extern "C" const char* arena_error(int code) {{ return "out of everything"; }}
"""
ARGUMENTS = [
    Argument("x", "input", "dtype", ("rows", "cols")),
    Argument("bias", "input", "float32", ("cols",)),
    Argument("out", "output", "dtype", ("rows", "cols")),
    Argument("by", "scalar", "float32"),
]


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for mark, dtype in enumerate(("float32", "float16"), 1):
        source = tmp_path / f"{dtype}.cpp"
        source.write_text(_STAND_IN.format(mark=mark))
        library = tmp_path / f"kernel.{dtype}.so"
        subprocess.run(["g++", "-shared", "-fPIC", source, "-o", library], check=True)

    class Stream:
        cuda_stream = 0

    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    return tmp_path


def slots_of(dtype: torch.dtype, count: int, cols: int = 4) -> list[dict[str, object]]:
    return [
        {
            "by": 0.0,
            "rows": 2,
            "cols": cols,
            "x": torch.zeros(2, cols, dtype=dtype),
            "bias": torch.zeros(cols),
            "out": torch.zeros(2, cols, dtype=dtype),
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize(("dtype", "mark"), [(torch.float32, 1), (torch.float16, 2)])
def test_launches_go_to_the_library_of_the_dtype(
    dtype: torch.dtype, mark: int, stand_ins: Path
) -> None:
    slots = slots_of(dtype, 3)
    launch = GpuKernel.load(stand_ins, "shifted").bind(ARGUMENTS, slots)
    launch(2, 2)  # the third slot, then the first
    written = [bool(torch.any(slot["out"].view(torch.uint8) == mark)) for slot in slots]
    assert written == [True, False, True]


def test_an_error_of_a_launch_is_told_with_its_text(stand_ins: Path) -> None:
    launch = GpuKernel.load(stand_ins, "shifted").bind(ARGUMENTS, slots_of(torch.float32, 1, 7))
    with pytest.raises(SubmissionError, match="returned 9, out of everything") as caught:
        launch(0, 1)
    assert caught.value.reason is Reason.CALL_ERROR


def test_an_error_is_told_once(stand_ins: Path) -> None:
    kernel = GpuKernel.load(stand_ins, "shifted")
    refused, right = slots_of(torch.float32, 1, 7), slots_of(torch.float32, 1)
    with pytest.raises(SubmissionError):
        kernel.bind(ARGUMENTS, refused)(0, 1)
    kernel.bind(ARGUMENTS, right)(0, 1)


def test_a_library_without_the_entry_point_is_refused(stand_ins: Path) -> None:
    with pytest.raises(SubmissionError) as caught:
        GpuKernel.load(stand_ins, "drifted")
    assert caught.value.reason is Reason.MISSING_ENTRY
