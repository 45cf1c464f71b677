"""Tests of trivial submissions: valid programs in every language, for every operator."""

from __future__ import annotations

import itertools
import math
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from evaluation.code.building import nvcc
from evaluation.code.languages import languages
from evaluation.code.languages.hip import INCLUDE
from evaluation.judge.request import check_files
from evaluation.kinds.kernel.admission.trivial_submissions import NOTES, probes
from evaluation.kinds.kernel.builds import build
from evaluation.kinds.kernel.load import load_operator, load_task
from evaluation.kinds.kernel.workload import values_of
from evaluation.sandboxed.kernels import loader
from evaluation.shapes import dtype_of, elements, shape_of
from evaluation.tasks.operator import Operator, Track
from evaluation.tasks.spec import Task, find_operators, folder_of
from evaluation.types import Case
from tests.evaluation.code.languages.machine import needs_nvcc

TASKS = Path(__file__).resolve().parents[5] / "tasks"
NAMES = find_operators(TASKS)


@pytest.fixture(scope="module")
def operators() -> list[Operator]:
    return [load_operator(folder_of(TASKS, name), "gpu") for name in NAMES]


def test_trivial_submissions_of_every_language_break_no_rule(operators: list[Operator]) -> None:
    for operator in operators:
        for language in languages().values():
            task = Task(operator, Track(language.name, language.name), "", language.kinds[0])
            written = probes(operator, language.name)
            assert [probe.name for probe in written] == list(NOTES)
            for probe in written:
                written_to = operator.outputs if language.name != "torch" else ()
                assert all(output.name in probe.source for output in written_to)
                files = {task.target_file: probe.source}
                check_files(files, task.target_file)
                language.check(files, task)


@needs_nvcc
def test_trivial_submissions_compile_with_nvcc_in_every_dtype(
    operators: list[Operator], tmp_path: Path
) -> None:
    """Compile all as one translation unit, each in its namespace, since nvcc starts slowly."""
    unit = tmp_path / "all.cu"
    # Before all namespaces: a header is included once, in the first that asks for it.
    included = "#include <stdint.h>\n"
    included += "".join(f"#include <hip/{path.name}>\n" for path in INCLUDE.glob("hip/hip_*16.h"))
    unit.write_text(included + "".join(_namespaces(operators)))
    argv = [nvcc.toolkit().nvcc, "-std=c++17", f"-arch={nvcc.ABSENT_ARCHITECTURE}", "-ptx"]
    argv += ["-Xcicc", "-O0"]  # half the time, for the same errors and warnings
    done = subprocess.run(
        [*argv, f"-I{INCLUDE}", str(unit), "-o", str(tmp_path / "all.ptx")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[:2000]
    assert not done.stderr


def _namespaces(operators: list[Operator]) -> Iterator[str]:
    for operator in operators:
        for language, dtype in itertools.product(("cuda", "hip"), operator.domain.dtypes):
            for probe in probes(operator, language):
                include = f'#include "{operator.name}.h"\n'
                assert include in probe.source
                text = probe.source.replace(include, languages()[language].header(operator))
                # A C function would be the same in every namespace.
                text = text.replace('extern "C" ', "")
                yield (
                    f"#define ARENA_{dtype.upper()} 1\n"
                    f"namespace {operator.name}_{language}_{probe.name}_{dtype} {{\n{text}}}\n"
                    f"#undef ARENA_{dtype.upper()}\n#undef ARENA_{operator.name.upper()}_H\n"
                )


@needs_nvcc
def test_trivial_submission_builds_like_any_submission(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvcc, "CROSS_ARCHITECTURES", ())
    monkeypatch.setattr(Task, "dtypes", property(lambda task: ["float16"]))
    task = load_task(TASKS, "conv2d", "cuda-to-cuda", "cpu")
    copy = probes(task.operator, "cuda")[2]
    made = build(task, "cuda", {task.target_file: copy.source}, cache)
    assert all(output.ok for output in made.outputs)
    assert "fill" in str(made.outputs[0].resources)


@pytest.mark.parametrize("name", NAMES)
def test_trivial_submission_in_pytorch_returns_its_values(name: str, tmp_path: Path) -> None:
    operator = load_operator(folder_of(TASKS, name))
    cases = operator.domain.boundaries(operator.domain.dtypes)
    case = sorted(cases, key=lambda case: elements(operator.arguments, case))[:3][-1]
    slot = _slot(operator, case)
    first = slot[operator.inputs[0].name].flatten()
    for probe in probes(operator, "torch"):
        (folder := tmp_path / probe.name).mkdir()
        (folder / f"{name}.py").write_text(probe.source)
        loader("torch").load(folder, name).bind(operator.arguments, [slot])(0, 1)
        for output in operator.outputs:
            got = slot[output.name].flatten()
            if probe.name in ("zeros", "constant"):
                assert (got == float(probe.name == "constant")).all()
            if probe.name == "copy":
                repeated = first.repeat(len(got) // len(first) + 1)[: len(got)]
                assert torch.equal(got, repeated.to(got.dtype))


def _slot(operator: Operator, case: Case) -> dict[str, Any]:
    """Return tensors that count up from zero, sizes and scalars."""
    tensors = {
        a.name: torch.arange(math.prod(shape_of(a, case)))
        .to(getattr(torch, dtype_of(a, case)))
        .view(shape_of(a, case))
        for a in operator.arguments
        if a.role != "scalar"
    }
    return {**tensors, **values_of(operator, case)}
