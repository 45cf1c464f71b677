"""Kernels of a captured graph are those of the source; a library's show by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.errors import SubmissionError
from evaluation.sandboxed import graph_kernels
from evaluation.types import Reason

FUNCTIONS = {"scale", "scale_kernel", "launch"}


@pytest.mark.parametrize(
    "name",
    [
        "scale_kernel",
        "_helion_scale",
        "_helion_scale_1",
        "kernel_cutlass_scale_tensorptrf32gmemo10241_0",
        "scale_kernel_1",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
        "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_implIZZZNS0_"
        "23direct_copy_kernel_cudaERNS_18TensorIteratorBaseE",
    ],
)
def test_kernel_of_the_source_and_fills_and_copies_of_pytorch_are_its_own(name: str) -> None:
    assert graph_kernels.foreign([name], FUNCTIONS) == []


@pytest.mark.parametrize(
    "name",
    [
        "ampere_sgemm_128x64_nn",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
        "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNN",
        "_ZN7cutlass7Kernel2I66cutlass_80_tensorop_s16816gemm_bf16_256x128_32x3_tn_align8EEv",
        "_Z17gemv2T_kernel_valIiiffffLi128ELi16ELi4ELi4ELb0ELb0E",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma",
        "void splitKreduce_kernel",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE",
        "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_10MeanOpsIffEEEE",
        "triton_poi_fused_mul_0",
    ],
)
def test_kernel_of_a_library_is_foreign(name: str) -> None:
    assert graph_kernels.foreign(["scale_kernel", name], FUNCTIONS) == [name]


def test_kernel_of_a_library_is_refused() -> None:
    names = {"scale_kernel", "ampere_sgemm_128x64_nn"}
    graph_kernels.check(["scale_kernel"], {"scale_kernel"})
    with pytest.raises(SubmissionError, match="`ampere_sgemm_128x64_nn`, which is no") as caught:
        graph_kernels.check(names, {"scale_kernel", "ampere_sgemm_128x64_nn"})
    assert caught.value.reason is Reason.FORBIDDEN


@pytest.mark.parametrize(
    "name",
    [
        "ampere_sgemm_128x64_nn",
        "_Z17gemv2T_kernel_valIiiffffLi128ELi16ELi4ELi4ELb0ELb0E",
        "_ZN7cutlass7Kernel2I66cutlass_80_tensorop_s16816gemm_bf16_256x128_32x3_tn_align8EEv",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE",
    ],
)
def test_kernel_of_a_library_is_foreign_beside_a_function_of_its_name(name: str) -> None:
    assert graph_kernels.foreign([name], {*FUNCTIONS, name}) == [name]


def test_functions_of_a_source_are_found_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_text(
        "\ufeffdef one():\n    def two():\n        pass\n\n\nclass A:\n    def three(self): ...\n"
    )
    assert graph_kernels.functions_of(path) == {"one", "two", "three"}
