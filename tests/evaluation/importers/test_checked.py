"""Tests of what an import finds out by running a task: what is finite, and what may be rounded."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evaluation.importers.sandboxed import checked
from evaluation.importers.sandboxed.checked import Checker
from evaluation.importers.sandboxed.observation import Unsupported
from evaluation.tasks.roundings import size_of_roundings


@pytest.mark.parametrize(("value", "finite"), [(3.0, True), (1e38, False), (torch.inf, False)])
def test_results_at_the_end_of_float32_are_not_finite(
    tmp_path: Path, value: float, finite: bool
) -> None:
    class OfOneResult(Checker):
        def _exact(self, family: str, seed: int) -> tuple[torch.Tensor, ...]:
            return (torch.tensor([1.0, -value], dtype=torch.float64),)

    written: Any = SimpleNamespace(has_infinities=False)
    assert OfOneResult(written, tmp_path)._is_finite("nominal") is finite


@pytest.mark.parametrize(
    ("least", "operations", "chosen"), [(70, 9e9, 96), (1, 9e9, 1), (1, 1, 24)]
)
def test_cases_get_room_for_weights_and_are_small_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int, operations: float, chosen: int
) -> None:
    checker = checker_of_weights(tmp_path, least)
    monkeypatch.setattr(checked, "_operations", lambda operator: operations)
    checker._size()
    assert checker.written.case_mb == chosen


def test_model_with_huge_weights_is_refused(tmp_path: Path) -> None:
    checker = checker_of_weights(tmp_path, least=2000)
    with pytest.raises(Unsupported, match="small enough for a CPU: needs 2000 MB"):
        checker._size()


def checker_of_weights(folder: Path, least: int) -> Checker:
    """Return one whose task can be loaded with tensors of at least so many megabytes."""

    class OfWeights(Checker):
        def _write(self) -> None:
            pass

        def _operator(self, kind: str) -> Any:
            if self.written.case_mb < least:
                raise Unsupported(f"needs {least} MB")

    written: Any = SimpleNamespace(has_data=False, case_mb=0)
    return OfWeights(written, folder)


def test_whole_numbers_may_be_rounded_only_where_they_are_made_of_floats() -> None:
    x = torch.arange(-128, 128, dtype=torch.int8)
    generator = torch.Generator().manual_seed(1)

    def of_floats(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x.double()).to(torch.int8)

    (size,) = size_of_roundings(of_floats, {"x": x}, generator, rounded=(0,))
    assert size[x == 6] == 1 and size[x < -8].sum() == 0, "6 (1 - 1e-9) is 5 or 6"
    (size,) = size_of_roundings(lambda x: x // 2 + 3, {"x": x}, generator, rounded=(0,))
    assert not size.any()
