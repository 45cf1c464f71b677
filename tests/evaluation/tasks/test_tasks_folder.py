"""Tests of every operator under `tasks/`, and of its workspace files."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from evaluation.bench.memory.verify import compare
from evaluation.errors import SubmissionError
from evaluation.kinds.kernel.load import load_operator, load_task
from evaluation.kinds.kernel.workspace_files import starter_files
from evaluation.sandboxed.kernels.python_file import load_function
from evaluation.shapes import FAMILIES, elements, shape_of
from evaluation.tasks.operator import Example, Operator
from evaluation.tasks.reference import Reference
from evaluation.tasks.spec import folder_of, self_tested
from evaluation.types import Case, Split

TASKS = Path(__file__).resolve().parents[3] / "tasks"
OPERATORS = self_tested(TASKS)
SLUGS = [(name, t.slug) for name in OPERATORS for t in load_operator(folder_of(TASKS, name)).tracks]
CATEGORIES = (
    "Activation Convolution Fusion Index LinearAlgebra Loss Math MatrixMultiply Normalization"
    " Optimizer Pooling Quantization Random Reduce SpatialOps"
).split()
UNSEEN = {
    "edge": 1,
    "scale-up": 1,
    "scale-down": 1,
    "misaligned": 2,
    "asymmetric": 1,
    "production": 2,
}
SMALL = 20_000
POISON = 0x5EED


@pytest.fixture(params=OPERATORS)
def operator(request: pytest.FixtureRequest) -> Operator:
    return load_operator(folder_of(TASKS, request.param))


def small_cases(operator: Operator) -> list[Case]:
    cases = [*operator.cases, *operator.domain.boundaries()]
    return [case for case in cases if elements(operator.arguments, case) <= SMALL]


def test_operator_has_category_level_and_prompt(operator: Operator) -> None:
    assert operator.category in CATEGORIES
    assert operator.level in (1, 2, 3)
    assert len(operator.prompt) > 200


def test_operator_float32_cases_cover_every_kind(operator: Operator) -> None:
    cases = [case for case in operator.cases if case.dtype == "float32"]
    assert 3 <= sum(case.split is Split.SEEN for case in cases) <= 6
    kinds = Counter(case.kind for case in cases if case.split is Split.UNSEEN)
    assert sum(kinds.values()) >= 8
    assert all(kinds[kind] >= least for kind, least in UNSEEN.items())


def test_operator_has_seen_and_unseen_cases_of_every_dtype(operator: Operator) -> None:
    for dtype in operator.domain.dtypes:
        assert {case.split for case in operator.cases if case.dtype == dtype} == {*Split} - {
            Split.SAMPLED
        }


def test_operator_has_honest_implementations_and_mutants(operator: Operator) -> None:
    honest = Counter(example.language for example in operator.honest())
    mutants = Counter(example.language for example in operator.mutants())
    assert honest["torch"] >= 1
    assert mutants["torch"] >= 1
    for language in {track.target for track in operator.tracks}:
        assert honest[language] >= 2, language
        assert mutants[language] >= (4 if language == "cpp" else 3), language


def test_reference_returns_the_declared_shapes(operator: Operator) -> None:
    for case in small_cases(operator):
        reference = Reference(operator, case)
        for family in FAMILIES:
            inputs = reference.draw(family)
            assert [*inputs] == [argument.name for argument in operator.inputs]
            outputs = reference.expected(inputs)
            shapes = [shape_of(argument, case) for argument in operator.outputs]
            assert [tuple(t.exact.shape) for t in outputs.values()] == shapes
            for expected in outputs.values():
                assert expected.allowed.shape == expected.exact.shape
                assert torch.isfinite(expected.rounded).all(), (case.name, family)
                assert torch.isfinite(expected.allowed).all(), (case.name, family)


def test_cost_counts_every_tensor_once(operator: Operator) -> None:
    for case in operator.cases:
        moved, flops = operator.module().cost(case)
        inputs = elements(operator.arguments, case)
        # A call reads the filled part of a paged cache: at least half of it.
        assert inputs <= moved <= 8 * inputs
        assert flops > 0


def judge_torch(operator: Operator, example: Example, folder: Path) -> float:
    """Return the share of the allowed error of a PyTorch implementation."""
    path = folder / f"{example.name}.py"
    path.write_text(example.source)
    implementation = load_function(path, operator.name)
    worst = 0.0
    for case in small_cases(operator):
        reference = Reference(operator, case)
        scalars = [case[argument.name] for argument in operator.scalars]
        for family in FAMILIES:
            inputs = reference.draw(family)
            results = implementation(*(tensor.clone() for tensor in inputs.values()), *scalars)
            results = results if isinstance(results, tuple) else (results,)
            outputs = dict(zip((a.name for a in operator.outputs), results, strict=True))
            where = f"{case.name}, {family}"
            worst = max(worst, compare(outputs, reference.expected(inputs), POISON, where))
    return worst


def test_honest_torch_implementation_stays_within_the_tolerance(
    operator: Operator, tmp_path: Path
) -> None:
    for example in operator.honest():
        if example.language == "torch":  # usually half; at most 0.78 in 280 runs
            assert judge_torch(operator, example, tmp_path) < 0.9


def test_torch_mutants_fail_with_the_expected_reason(operator: Operator, tmp_path: Path) -> None:
    for example in operator.mutants():
        if example.language == "torch":
            with pytest.raises(SubmissionError) as refused:
                judge_torch(operator, example, tmp_path)
            assert refused.value.reason is example.expect


def test_baseline_tunables_include_its_own_values(operator: Operator) -> None:
    targets = {track.target for track in operator.tracks}
    for language in targets:
        define = r"^{} = (\S+)" if language == "triton" else r"^#define {} (\S+)"
        source = operator.baseline(language)
        found = re.findall(r"arena: tune (\w+) (.+)", source)
        assert found or language == "hip", language
        for name, options in found:
            value = re.search(define.format(name), source, re.MULTILINE)
            assert value, f"{language}: {name} is not defined"
            assert value[1] in options.split()
            assert len(options.split()) >= 3
        choices = re.search(r"arena: tune-flags (.+)", source)
        assert choices or language != "cpp"
        if choices:
            flags = re.search(r"arena: flags (.+)", source)
            assert flags, language
            assert f'"{flags[1]}"' in choices[1]


@pytest.mark.parametrize(("name", "track"), SLUGS)
def test_starter_files_are_complete_and_show_nothing_hidden(name: str, track: str) -> None:
    task = load_task(TASKS, name, track)
    files = starter_files(task)
    assert {task.target_file, "TASK.md", "reference.py"} <= files.keys()
    assert (f"{name}.h" in files) == (task.track.target in ("cpp", "cuda", "hip"))
    assert "./arena-check" in files["TASK.md"]
    assert ("./arena-profile" in files["TASK.md"]) == (task.track.target != "cpp")
    for case in task.cases(Split.SEEN):
        assert case.name in files["TASK.md"]
    text = "\n".join(files.values())
    for case in task.operator.cases:
        if case.split.hidden:
            row = " | ".join(str(case[symbol]) for symbol in task.operator.domain.symbols)
            assert case.name not in text
            assert f"| {case.dtype} | {row} |" not in text
    for example in (*task.operator.mutants(), *task.operator.honest()):
        assert example.source not in text


@pytest.mark.parametrize(("name", "limited"), [("rope", True), ("gelu_tanh", False)])
def test_brief_limits_rules_of_inputs_to_those_of_its_text(name: str, limited: bool) -> None:
    brief = starter_files(load_task(TASKS, name, "torch-to-torch"))["TASK.md"]
    assert ("`inputs` in `reference.py` makes" in brief) == limited


@pytest.mark.parametrize("name", OPERATORS)
def test_starter_target_is_the_baseline_or_a_skeleton(name: str) -> None:
    operator = load_operator(folder_of(TASKS, name))
    triton = starter_files(load_task(TASKS, name, "triton-to-triton"))[f"{name}.py"]
    assert triton == operator.baseline("triton")
    skeleton = starter_files(load_task(TASKS, name, "torch-to-triton"))[f"{name}.py"]
    entry = next(n for n in ast.parse(skeleton).body if isinstance(n, ast.FunctionDef))
    assert [a.arg for a in entry.args.args] == [a.name for a in operator.arguments]
    if "cpp" in {track.target for track in operator.tracks}:
        assert (
            f"int {name}(const {name}_args* args)"
            in starter_files(load_task(TASKS, name, "torch-to-cpp"))[f"{name}.cpp"]
        )
