"""Launches of Triton and the like that no CUDA graph holds are refused: nothing names kernels."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from evaluation.errors import SubmissionError
from evaluation.kinds.kernel.session import require_named_kernels
from evaluation.types import Reason


def timer(captured: bool) -> Any:
    process = SimpleNamespace(refusal="operation not permitted when stream is capturing")
    return SimpleNamespace(captured=captured, where="case wide", process=process)


@pytest.mark.parametrize("language", ["triton", "helion", "tilelang", "cutedsl"])
def test_launch_that_no_graph_holds_is_refused_where_kernels_must_be_its_own(language: str) -> None:
    require_named_kernels(language, timer(captured=True), nvidia=True)
    with pytest.raises(SubmissionError, match=r"case wide: no CUDA graph .*is capturing") as caught:
        require_named_kernels(language, timer(captured=False), nvidia=True)
    assert caught.value.reason is Reason.UNSUPPORTED


@pytest.mark.parametrize("language", ["cuda", "torch", "hip"])
def test_launch_that_no_graph_holds_passes_in_other_languages(language: str) -> None:
    require_named_kernels(language, timer(captured=False), nvidia=True)


def test_kernels_of_amd_are_not_named() -> None:
    require_named_kernels("triton", timer(captured=False), nvidia=False)
