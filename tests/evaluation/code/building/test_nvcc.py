"""nvcc is found and asked for this machine's GPU; its words become diagnostics and numbers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evaluation.code.building import nvcc
from evaluation.errors import Broken


@pytest.fixture
def forgetful() -> Iterator[None]:
    """What was found of this machine is looked for again."""
    for found in (nvcc.toolkit, nvcc.capabilities):
        found.cache_clear()
    yield
    for found in (nvcc.toolkit, nvcc.capabilities):
        found.cache_clear()


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a program `nvidia-smi` on PATH that runs a line of a shell."""

    def install(line: str) -> None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    return install


def test_without_nvcc_the_judge_says_what_to_install(
    forgetful: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    with pytest.raises(Broken, match="install the CUDA toolkit"):
        nvcc.toolkit()


@pytest.mark.parametrize(
    ("said", "chosen", "expected"),
    [
        ("9.0\n9.0\n", "", "sm_90a"),
        ("8.9\n", "", "sm_89"),
        ("12.0\n", "", "sm_120a"),
        ("No devices were found\n", "", "sm_90a"),
        ("8.9\n", "sm_100a", "sm_100a"),
    ],
)
def test_the_architecture_is_the_devices_own(
    said: str,
    chosen: str,
    expected: str,
    forgetful: None,
    smi: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    smi(f"echo '{said.strip()}'")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("ARENA_CUDA_ARCH", chosen)
    assert nvcc.architecture() == expected


def test_the_gpu_that_this_process_was_given_is_asked_for_alone(
    forgetful: None, smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    smi('[ "$1" = --id=GPU-b ] && echo 8.0 || { echo 9.0; echo 8.0; }')
    monkeypatch.delenv("ARENA_CUDA_ARCH", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b")
    assert nvcc.architecture() == "sm_80"
    nvcc.capabilities.cache_clear()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-c")  # which nvidia-smi takes for no name
    assert nvcc.architecture() == "sm_90a"


def test_the_words_of_ptxas_become_numbers() -> None:
    said = """\
ptxas info    : 0 bytes gmem
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : Compiling entry function '_Z5scaleIfEvPKT_PS0_lf' for 'sm_90a'
ptxas info    : Function properties for _Z5scaleIfEvPKT_PS0_lf
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 2048 bytes smem, 384 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Function properties for _Z6helperf
    32 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Compiling entry function '_Z5scaleI6__halfEvPKT_PS1_lf' for 'sm_90a'
ptxas info    : Function properties for _Z5scaleI6__halfEvPKT_PS1_lf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers
"""  # noqa: E501 - as ptxas says it
    diagnostics, resources = nvcc.read(said)
    assert [(d.severity, d.file) for d in diagnostics] == [("note", "ptxas")]
    wide, narrow = resources.values()
    assert wide == {
        "registers": 255,
        "stack_bytes": 16,
        "spill_store_bytes": 8,
        "spill_load_bytes": 12,
        "shared_bytes": 2048,
        "constant_bytes": 392,
        "barriers": 1,
    }
    assert (narrow["registers"], narrow["shared_bytes"]) == (10, 0)
    if shutil.which("c++filt"):
        assert list(resources) == ["scale<float>", "scale<__half>"]


def test_the_words_of_nvcc_become_diagnostics() -> None:
    said = """\
a.cu(10): warning #177-D: variable "unused" was declared but never referenced
a.cu(2): error: identifier "retrn" is undefined
a.cu(1): catastrophic error: cannot open source file "b.h"
ptxas /tmp/a.ptx, line 52; error   : Not a name of any known instruction: 'foo'
ptxas error   : Entry function '_Z1kPf' uses too much shared data (0x445c0 bytes, 0x38c00 max)
nvcc fatal   : Unsupported gpu architecture 'compute_20'
"""
    found = [(d.file, d.line, d.severity) for d in nvcc.read(said)[0]]
    assert found == [
        ("a.cu", 10, "warning"),
        ("a.cu", 2, "error"),
        ("a.cu", 1, "catastrophic error"),
        ("ptxas", 52, "error"),
        ("ptxas", 0, "error"),
        ("nvcc", 0, "fatal error"),
    ]
