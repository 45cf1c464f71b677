"""Tests of every `gpu.toml`: its cases have the sizes of production."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from evaluation.device_kind import GPU
from evaluation.kinds.kernel.load import load_operator
from evaluation.shapes import tensor_bytes
from evaluation.tasks.operator import Operator
from evaluation.tasks.spec import folder_of, self_tested
from evaluation.types import Split

TASKS = Path(__file__).resolve().parents[3] / "tasks"
OPERATORS = self_tested(TASKS)
UNSEEN = {
    "edge": 1,
    "scale-up": 1,
    "scale-down": 1,
    "misaligned": 2,
    "asymmetric": 1,
    "production": 2,
}
# An H200 in one second: bytes moved by a copy, operations of its matrix units, and operations in
# single or double precision.
COPY_BYTES = 4.3e12
FLOPS, WIDE_FLOPS = 1e15, 6e13


@pytest.fixture(params=OPERATORS)
def operator(request: pytest.FixtureRequest) -> Operator:
    return load_operator(folder_of(TASKS, request.param), GPU)


def test_gpu_cases_cover_every_kind_and_dtype(operator: Operator) -> None:
    seen = [case for case in operator.cases if case.split is Split.SEEN]
    unseen = [case for case in operator.cases if case.split is Split.UNSEEN]
    assert 3 <= len(seen) <= 6
    kinds = Counter(case.kind for case in unseen)
    assert all(kinds[kind] >= least for kind, least in UNSEEN.items())
    for cases in (seen, unseen):
        assert {case.dtype for case in cases} == set(operator.domain.dtypes)


def test_gpu_seen_cases_take_microseconds_to_milliseconds(operator: Operator) -> None:
    for case in operator.cases:
        if case.split is Split.SEEN:
            moved, flops = operator.module().cost(case)
            least = max(
                moved / COPY_BYTES, flops / (WIDE_FLOPS if case.dtype == "float32" else FLOPS)
            )
            assert 1.5e-6 < least < 2e-3, case.name


def test_gpu_expected_outputs_are_fast_and_fit_in_memory(operator: Operator) -> None:
    for case in operator.cases:
        assert tensor_bytes(operator.arguments, case) <= 1536 * 2**20, case.name
        assert operator.module().cost(case)[1] / WIDE_FLOPS < 0.2, case.name


def test_gpu_boundary_cases_exceed_every_tile_of_a_kernel(operator: Operator) -> None:
    largest = max(
        max(case[symbol] for symbol in operator.sizes) for case in operator.domain.boundaries()
    )
    assert largest >= 255
