"""Tests of the names of tasks: no two problems of a suite have one."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from evaluation.importers.checkout import Checkout
from evaluation.importers.names import MAX_CHARACTERS, distinct
from evaluation.importers.suites import Problem, suites

NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
PATHS = {
    "kernelbench": "KernelBench/level{level}/{number}_{words}.py",
    "kernelbench-v0": "KernelBench/level{level}/{number}_{words}.py",
    "kernelbench-x": "data/kernelbenchx/{set}/{words}.py",
    "tritonbench": "data/TritonBench_T_v1/{words}.py",
    "gpu-mode": "problems/{set}/{words}/task.yml",
    "flashinfer": "{set}/definitions/misc/{words}.json",
    "multikernelbench": "reference/{set}/{words}.py",
    "sol-execbench": "data/{set}/{number}_{words}/definition.json",
    "agentkernelarena": "tasks/{kind}/gpumode/{words}/pytorch_code_module/{set}.py",
}
"""Form of the paths of each suite."""
LONG = "a_name_that_goes_on_and_on_until_it_is_cut_at_its_end_" * 2
WORDS = (
    "norm",
    "Norm",
    "NORM",
    "_norm",
    "norm_",
    "layer_norm",
    LONG,
    LONG + "1",
    LONG + "2",
    "x" * 99,
)


def problem(name: str, path: str = "") -> Problem:
    return Problem(name, path or name, name, 1, "Fusion")


def named(slug: str, paths: set[str]) -> list[Problem]:
    suite = suites()[slug]
    checkout = Checkout(Path("/nowhere"), "", "0" * 40, dict.fromkeys(paths, "0" * 40))
    return distinct(suite.problems(checkout))


@pytest.mark.parametrize("slug", sorted(PATHS))
@pytest.mark.parametrize("seed", range(20))
def test_any_two_problems_of_a_suite_have_two_names(slug: str, seed: int) -> None:
    assert PATHS.keys() == suites().keys()
    draw = random.Random(seed)
    paths = {
        PATHS[slug].format(
            level=draw.choice("123"),
            number=draw.choice(("1", "01", "001", "2")),
            set=draw.choice(("a", "A", "b_c", "bc")),
            kind=draw.choice(("torch2hip", "hip2hip")),
            words=draw.choice(WORDS),
        )
        for _ in range(60)
    }
    found = named(slug, paths)
    assert len(found) >= 5
    assert len({each.name for each in found}) == len(found) == len({each.path for each in found})
    for each in found:
        assert NAME.fullmatch(each.name) and len(each.name) <= MAX_CHARACTERS, each.name


def test_names_do_not_depend_on_the_order_of_files() -> None:
    found = [problem(f"kb1_1_{words}", f"level1/{n}") for n, words in enumerate(WORDS)]
    forward = {each.path: each.name for each in distinct(found)}
    assert {each.path: each.name for each in distinct(found[::-1])} == forward


def test_name_without_another_like_it_is_kept_and_only_cut() -> None:
    (found,) = distinct([problem(f"kb1_1_{LONG}")])
    assert found.name == f"kb1_1_{LONG}"[:MAX_CHARACTERS].rstrip("_")


def test_names_of_definitions_with_dots_find_their_workloads() -> None:
    paths = {
        "definitions/misc/gemm_v1.5.json",
        "workloads/misc/gemm_v1.5.jsonl",
        "workloads/misc/gemm_v1.5.2.workload.jsonl",
        "definitions/misc/norm.json",
        "workloads/misc/norm.workload.jsonl",
    }
    assert {each.path: each.cases for each in named("flashinfer", paths)} == {
        "definitions/misc/gemm_v1.5.json": "workloads/misc/gemm_v1.5.jsonl",
        "definitions/misc/norm.json": "workloads/misc/norm.workload.jsonl",
    }
    checkout = Checkout(Path("/nowhere"), "", "0" * 40, dict.fromkeys(paths, "0" * 40))
    assert suites()["flashinfer"].unused(checkout) == ["workloads/misc/gemm_v1.5.2.workload.jsonl"]
