"""Tests of what an import finds out by running a task: what is finite, and what may be rounded."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evaluation.importing.sandboxed.checked import Checker
from evaluation.tasks.roundings import size_of_roundings


@pytest.mark.parametrize(("value", "finite"), [(3.0, True), (1e38, False), (torch.inf, False)])
def test_results_at_the_end_of_float32_are_not_finite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float, finite: bool
) -> None:
    written: Any = SimpleNamespace(has_infinities=False)
    checker = Checker(written, tmp_path)
    result = torch.tensor([1.0, -value], dtype=torch.float64)
    monkeypatch.setattr(checker, "_exact", lambda family, seed: (result,))
    assert checker._is_finite("nominal") is finite


def test_whole_numbers_may_be_rounded_only_where_they_are_made_of_floats() -> None:
    x = torch.arange(-128, 128, dtype=torch.int8)
    generator = torch.Generator().manual_seed(1)

    def of_floats(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x.double()).to(torch.int8)

    (size,) = size_of_roundings(of_floats, {"x": x}, generator, rounded=(0,))
    assert size[x == 6] == 1 and size[x < -8].sum() == 0, "6 (1 - 1e-9) is 5 or 6"
    (size,) = size_of_roundings(lambda x: x // 2 + 3, {"x": x}, generator, rounded=(0,))
    assert not size.any()
