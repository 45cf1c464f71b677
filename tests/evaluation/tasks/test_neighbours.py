"""Neighbours of seen cases: of which every task has enough, and how they are drawn."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from evaluation.code.languages import languages
from evaluation.kinds.kernel.load import load_operator, load_task
from evaluation.tasks.domain import LogUniform
from evaluation.tasks.neighbours import (
    ALIGNED,
    DRAWN_FACTOR,
    MIN_TIMED,
    is_near,
    neighbours,
)
from evaluation.tasks.spec import OPEN_TRACK, Task, find_operators, folder_of, self_tested
from evaluation.types import Case, Split

TASKS = Path(__file__).resolve().parents[3] / "tasks"
TESTED = self_tested(TASKS)
# The cases of a short operator are made by rule: those of one track are enough.
KINDS = [
    pytest.param(f"{name}/{track.slug}", kind, id=f"{name}/{track.slug}-{kind}")
    for name in find_operators(TASKS)
    for track in (
        *(load_operator(folder_of(TASKS, name)).tracks if name in TESTED else ()),
        OPEN_TRACK,
    )
    for kind in languages()[track.target].kinds
]


@pytest.fixture
def softmax() -> Task:
    return load_task(TASKS, "softmax", "triton-to-triton", "gpu")


@pytest.mark.parametrize(("slug", "kind"), KINDS)
def test_every_seen_case_of_a_task_has_neighbours_of_its_size(slug: str, kind: str) -> None:
    task = load_task(TASKS, *slug.split("/"), kind)
    seen = task.cases(Split.SEEN)
    for seed in range(2):
        found = neighbours(task, Random(seed))
        assert len(found) == len(seen) * max(1, MIN_TIMED // len(seen)) >= 3
        assert len({case.name for case in found}) == len(found)
        assert all(any(is_near(task.operator, case, of) for of in seen) for case in found)
        assert all(case.kind != "edge" for case in found), "an edge times the call, not the work"
        assert not any(case.symbols == of.symbols and case.dtype == of.dtype
                       for case in found for of in seen)  # fmt: skip


def test_neighbours_are_written_and_drawn_ones_and_differ_with_the_secret(softmax: Task) -> None:
    splits: Counter[Split] = Counter()
    drawn, written = set(), set()
    for seed in range(60):
        found = neighbours(softmax, Random(seed))
        assert found == neighbours(softmax, Random(seed))
        splits.update(case.split for case in found)
        written.add(frozenset(c.name for c in found if c.split is Split.UNSEEN))
        drawn |= {tuple(c.symbols.values()) for c in found if c.split is Split.SAMPLED}
    assert len(written) > 10 and len(drawn) > 100
    assert 0.1 < splits[Split.UNSEEN] / splits.total() < 0.75


def test_drawn_sizes_lie_around_the_seen_one_and_are_as_aligned(softmax: Task) -> None:
    (seen,) = (case for case in softmax.cases(Split.SEEN) if case.name == "attention-2k-float32")
    operator = dataclasses.replace(softmax.operator, cases=(seen,))
    ratios: list[float] = []
    for seed in range(100):
        for case in neighbours(dataclasses.replace(softmax, operator=operator), Random(seed)):
            for name in ("rows", "cols"):
                ratios.append(case[name] / seen[name])
                assert 1 / DRAWN_FACTOR <= ratios[-1] <= DRAWN_FACTOR
                assert case[name] % ALIGNED == 0
    assert min(ratios) < 0.6 and max(ratios) > 1.8
    assert abs(statistics.fmean(map(math.log, ratios))) < 0.1


def test_case_is_near_where_dtype_choices_sizes_and_work_are(softmax: Task) -> None:
    operator = softmax.operator
    (seen,) = (case for case in softmax.cases(Split.SEEN) if case.name == "attention-2k-float32")

    def near(rows: int, cols: int, dtype: str = "float32") -> bool:
        symbols = {"rows": rows, "cols": cols}
        return is_near(operator, dataclasses.replace(seen, symbols=symbols, dtype=dtype), seen)

    assert near(16384, 8192) and near(4096, 2048) and near(8192, 1032)
    assert not near(2048, 8208), "a size is further away"
    assert not near(32768, 8192), "it moves eight times the bytes"
    assert not near(16384, 2050), "it is less aligned"
    assert not near(16384, 2048, "float16"), "it is of another dtype"
    attention = load_task(TASKS, "attention", "torch-to-cuda", "gpu")
    case = attention.cases(Split.SEEN)[0]
    choices = [n for n, v in attention.operator.domain.symbols.items()
               if not isinstance(v, LogUniform) and len(v.values) > 1]  # fmt: skip
    other = next(v for v in attention.operator.domain.symbols[choices[0]].boundaries()
                 if v != case[choices[0]])  # fmt: skip
    changed = dataclasses.replace(case, symbols={**case.symbols, choices[0]: other})
    assert is_near(attention.operator, case, case)
    assert not is_near(attention.operator, changed, case)


def test_task_with_one_seen_case_has_four_neighbours_of_it(softmax: Task) -> None:
    seen = softmax.cases(Split.SEEN)[:1]
    alone = dataclasses.replace(softmax.operator, cases=seen)
    assert len(neighbours(dataclasses.replace(softmax, operator=alone), Random(1))) == MIN_TIMED


def test_seen_case_without_a_neighbour_is_left_out(softmax: Task) -> None:
    seen: Case = softmax.cases(Split.SEEN)[0]
    one = {name: LogUniform(int(seen[name]), int(seen[name])) for name in ("rows", "cols")}
    domain = dataclasses.replace(softmax.operator.domain, symbols=one)
    fixed = dataclasses.replace(softmax.operator, domain=domain, cases=(seen,))
    assert neighbours(dataclasses.replace(softmax, operator=fixed), Random(1)) == []
