"""Tests of the import of references with cases in YAML, the form of GPU MODE."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch

from evaluation.importers import convert
from evaluation.importers.checkout import Checkout
from evaluation.importers.files import Files
from evaluation.importers.importer import import_suite
from evaluation.importers.outcome import FIRST_CLASS, Import
from evaluation.importers.sandboxed.forms import gpu_mode
from evaluation.importers.sandboxed.forms.kernelbench import KernelBench
from evaluation.importers.sandboxed.observation import Unsupported
from evaluation.importers.suites import Problem, suites
from evaluation.kinds.kernel.load import load_task
from evaluation.types import Split
from tests.evaluation.importers.suite_checkout import commit

pytestmark = pytest.mark.timeout(600)
SUITE = suites()["gpu-mode"]
LICENCE = "June 9 Researcher Reciprocity License\nVersion 1.0\n"
REFERENCE = '''\
from utils import DeterministicContext, make_match_reference
import torch
from task import input_t, output_t


def ref_kernel(data: input_t) -> output_t:
    """Computes the result."""
    with DeterministicContext():
        {body}


def generate_input({parameters}, seed: int) -> input_t:
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    {drawn}


check_implementation = make_match_reference(ref_kernel)
'''
TASK = """\
description: |
  Scale the rows.
tests:
  - {"rows": 16, "cols": 16, "seed": 1}
benchmarks:
  - {"rows": 32, "cols": 48, "seed": 2}  # the largest
  - {"rows": 32, "cols": 16, "seed": 3}
"""
DRAWN = 'x = torch.randn(rows, cols, device="cuda", generator=gen).contiguous()'


def reference(body: str, drawn: str, parameters: str = "rows: int, cols: int") -> str:
    return REFERENCE.format(body=body, drawn=drawn, parameters=parameters)


DOUBLED = reference(
    "return data * 2", 'return torch.randn(rows, cols, device="cuda", generator=gen)'
)
LONG = reference(
    "return data * 2", f"{DRAWN}\n    for _ in range(6000):\n        x = x + 1\n    return x"
)
FILLED = reference(
    "x, w, out = data\n        out[...] = x * w\n        return out",
    f"{DRAWN}\n"
    "    w = torch.sigmoid(torch.randn(cols, device='cuda', generator=gen))\n"
    "    out = torch.empty_like(x, device='cuda')\n"
    "    return x, w, out",
)
WEIGHTED = reference(
    "x, weights, config = data\n        return (x @ weights['up']).view(-1, config['cols'])",
    f"{DRAWN}\n"
    "    weights = {}\n"
    "    weights['up'] = torch.randn(cols, cols, device='cuda') / cols\n"
    "    return x, weights, {'cols': cols}",
)
SWITCHED = reference(
    "x, mask = data\n        return (x * mask).sum(0).to(torch.float64)",
    f"{DRAWN}\n"
    "    mask = torch.ones(cols, device='cuda')\n"
    "    if masked:\n"
    "        mask = torch.randint(0, 2, (cols,), device='cuda', generator=gen)\n"
    "    return x, mask",
    "rows: int, cols: int, masked: bool",
)
HALVED = reference(
    "a, b, c = data\n        return a @ b",
    "a = torch.empty(rows, cols, device='cuda', dtype=torch.float16)\n"
    "    a.uniform_(0, 1, generator=gen)\n"
    "    b = torch.randn(cols, 64, device='cuda', dtype=torch.float16)\n"
    "    return a, b, torch.empty(rows, 64, device='cuda', dtype=torch.float16)",
)
SWITCHED_TASK = """\
benchmarks:
  - {"rows": 64, "cols": 48, "seed": 1, "masked": False}
  - {"rows": 32, "cols": 48, "seed": 1, "masked": True}
"""
CHECKED = DOUBLED.replace("make_match_reference(ref_kernel)", "lambda data, output: True")
GOOD = ("doubled", "filled", "weighted", "switched", "halved")
PROBLEMS = {
    "doubled_py": (DOUBLED, TASK),
    "filled_py": (FILLED, TASK),
    "weighted": (WEIGHTED, TASK),
    "switched": (SWITCHED, SWITCHED_TASK),
    "halved": (HALVED, TASK.replace("48", "1024")),
    "checked": (CHECKED, TASK),
    "without_generator": (DOUBLED.replace("generate_input", "make_input"), TASK),
    "damaged": (DOUBLED, TASK.replace("benchmarks:", "benchmarks: [")),
    "without_cases": (DOUBLED, "description: no cases\n"),
    "unfilled": (DOUBLED, TASK.replace("cols", "columns")),
    "imports": (DOUBLED.replace("import torch\n", "import torch\nimport socket\n").replace(
        "return data * 2", "return data * socket.AF_INET"), TASK),
    "narrow": (DOUBLED.replace("data * 2", "data.to(torch.float8_e4m3fnuz)"), TASK),
    "counted": (DOUBLED.replace("data * 2", "torch.bincount(data.view(-1).long())"), TASK),
    "long": (LONG, TASK),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return a folder with a checkout of good problems, and some that are refused."""
    root = tmp_path_factory.mktemp("gpu-mode")
    files = {"LICENSE": LICENCE, "problems/set/lost/task.yml": TASK}
    for name, (source, task) in PROBLEMS.items():
        files |= {f"problems/set/{name}/reference.py": source}
        files |= {f"problems/set/{name}/task.yml": task}
    commit(root / "suite", files)
    return root


@pytest.fixture(scope="module")
def found(folder: Path) -> Import:
    return imported(folder)


def imported(folder: Path, *only: str) -> Import:
    checkout = Checkout.open(folder / "suite", SUITE.repository)
    return import_suite(SUITE, checkout, folder / "into", only)


def task_folder(folder: Path, name: str) -> Path:
    return folder / "into" / SUITE.slug / f"gm_set_{name}"


def table(folder: Path, name: str) -> dict:
    return tomllib.loads((task_folder(folder, name) / "task.toml").read_text())


def shapes(folder: Path, name: str) -> dict[str, list[str]]:
    return {a["name"]: a["shape"] for a in table(folder, name)["arguments"]}


def test_reference_with_a_generator_becomes_a_task(found, folder):
    reasons = {each.name: each.reason for each in found.outcomes}
    kinds = {each.name for each in found.outcomes if each.kind == FIRST_CLASS}
    assert kinds == {f"gm_set_{n}" for n in GOOD}, reasons
    task = load_task(folder / "into" / SUITE.slug, "gm_set_doubled", "torch-to-torch", "cpu")
    assert "Scale the rows." in task.operator.prompt
    assert shapes(folder, "doubled") == {"data": ["rows", "cols"], "out": ["rows", "cols"]}


def test_largest_benchmark_is_published(found, folder):
    assert table(folder, "doubled")["models"] == {"published": {"rows": 32, "cols": 48}}


def test_other_benchmarks_are_cases_of_a_gpu(found, folder):
    models = {
        "published": {"rows": 32, "cols": 48},
        "benchmark-2": {"rows": 32, "cols": 16},
    }
    assert table(folder, "doubled")["gpu"]["models"] == models
    assert "models" not in table(folder, "switched")["gpu"], "the other benchmark has no mask"
    task = load_task(folder / "into" / SUITE.slug, "gm_set_doubled", "torch-to-torch", "gpu")
    seen = [case.name for case in task.operator.cases if case.split is Split.SEEN]
    assert seen == ["published", "benchmark-2"]


def test_import_keeps_both_files(found, folder):
    kept = task_folder(folder, "doubled")
    assert (kept / "problem.py").read_text() == DOUBLED and (kept / "cases.yml").read_text() == TASK
    source = table(folder, "doubled")["source"]
    assert source["path"] == "problems/set/doubled_py/reference.py"
    assert source["licence"] == "Researcher-Reciprocity-1.0"


def test_output_in_the_data_is_no_input(found, folder):
    assert shapes(folder, "filled") == {
        "x": ["rows", "cols"],
        "w": ["cols"],
        "out": ["rows", "cols"],
    }
    task = load_task(folder / "into" / SUITE.slug, "gm_set_filled", "torch-to-torch", "cpu")
    x, w = torch.randn(3, 5, dtype=torch.float64), torch.rand(5, dtype=torch.float64)
    assert torch.equal(task.operator.module().exact(x=x, w=w), x * w)


def test_task_of_16_bits_has_cases_of_16_bits(found, folder):
    halved = table(folder, "halved")
    assert halved["domain"]["dtypes"] == ["float16"]
    assert not any("dtype" in argument for argument in halved["arguments"])
    assert not {"large", "shifted"} & {*halved["input_families"]}, "their sums leave float16"


def test_dictionaries_of_tensors_and_of_sizes_are_taken_apart(found, folder):
    assert shapes(folder, "weighted") == {
        "x": ["rows", "cols"],
        "up": ["cols", "cols"],
        "out": ["rows", "cols"],
    }


def test_case_whose_inputs_are_all_drawn_is_preferred(found, folder):
    switched = table(folder, "switched")
    assert switched["models"]["published"] == {"rows": 32, "cols": 48}
    mask, out = switched["arguments"][1:]
    assert (mask["name"], mask["dtype"]) == ("mask", "int64")
    assert "dtype" not in out, "a float64 result of float32 inputs is compared as float32"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("checked", "tests properties of the result, not its values"),
        ("without_generator", "has no function generate_input()"),
        ("damaged", "task.yml is not valid YAML: line 6"),
        ("without_cases", "task.yml has no list of benchmarks"),
        ("unfilled", "task.yml does not give cols, which generate_input() takes"),
        ("imports", "the judged part of reference.py:9: `socket` may not be imported"),
        ("narrow", "uses torch.float8_e4m3fnuz, which the judge cannot draw"),
        ("counted", "does not run on tensors without data: aten::bincount"),
        ("long", "its generator makes more than 5000 calls of PyTorch"),
        ("lost", "problems/set/lost/reference.py is not in the commit"),
    ],
)
def test_import_refuses_a_problem_with_its_reason(found, name, words):
    assert words in {each.name: each.reason for each in found.outcomes}[f"gm_set_{name}"]


def test_reference_without_an_end_is_refused():
    hangs = DOUBLED.replace("return data * 2", "while True:\n            pass")
    problem = Problem("hangs", "hangs/reference.py", "Hangs", 1, "Math", cases="hangs/task.yml")
    found = convert.run([(problem, Files(hangs, TASK))], SUITE, 2)
    assert str(found["hangs"]) == "its code took longer than 2 s of processor time"


def test_changed_cases_make_a_new_version(found, folder):
    task = TASK.replace('"cols": 48', '"cols": 40')
    commit(folder / "suite", {"problems/set/doubled_py/task.yml": task})
    changed, kept = imported(folder, "gm_set_[df]*led").outcomes
    assert (changed.written, kept.written) == ("changed", "unchanged")
    assert table(folder, "doubled")["models"]["published"] == {"rows": 32, "cols": 40}


def test_problem_of_one_case_runs_without_data():
    source = next(gpu_mode.sources(Files(FILLED, TASK), "reference"))
    problem = KernelBench(source)
    assert problem.sizes == {"rows": 32, "cols": 48, "seed": 2}
    assert problem.observe({"rows": 7, "cols": 9}).outputs == ((7, 9),)


@pytest.mark.parametrize("text", ["", "[1, 2]", "benchmarks: 3", "benchmarks: [1]"])
def test_cases_that_are_no_list_of_tables_are_refused(text):
    with pytest.raises(Unsupported, match="no list of benchmarks"):
        gpu_mode.read_cases(text)
