"""The phases and regimes of a verdict, by device and scope."""

from __future__ import annotations

import pytest

from evaluation.device_kind import CPU, GPU
from evaluation.kinds.module.architectures import architectures
from evaluation.sandboxed.model.phases import CPU_COMPILED, GPU_UNCOMPILED, Regime, extent

EAGER, COMPILE, GRAPH = Regime


@pytest.mark.parametrize(
    ("kind", "final", "architecture", "phase", "regimes"),
    [
        (CPU, True, "llama", "decode", (EAGER, COMPILE)),
        (CPU, True, "llama", "prefill", (EAGER,)),
        (CPU, True, "dit", "forward", (EAGER, COMPILE)),
        (CPU, True, "mamba", "decode", (EAGER,)),
        (CPU, False, "llama", "decode", (EAGER,)),
        (GPU, True, "mamba", "prefill", (EAGER, COMPILE, GRAPH)),
        (GPU, False, "llama", "decode", (EAGER, GRAPH)),
        (GPU, True, "rwkv", "forward", (EAGER, GRAPH)),
    ],
)
def test_regimes_of_a_phase_follow_device_scope_and_architecture(
    kind: str, final: bool, architecture: str, phase: str, regimes: tuple[Regime, ...]
) -> None:
    assert extent(kind, final, architecture).of(phase) == regimes


def test_architectures_compiled_on_one_kind_alone_exist() -> None:
    assert {*CPU_COMPILED, *GPU_UNCOMPILED} <= set(architectures())
