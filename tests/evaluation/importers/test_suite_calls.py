"""Calls of imported problems as their suite calls them: constructor, weights and inputs.

The problem's own module, renamed, must be right. Small problems of each form are written here; the
last test does the same with all of KernelBench where IMPORTED names a folder of imported suites.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path

import pytest
import torch

from benchmarks import own_references
from benchmarks.own_references import largest_error, own_module
from evaluation.bench.memory.ring import BufferRing
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.task_process import TaskProcess
from evaluation.errors import SubmissionError
from evaluation.importers.checkout import Checkout
from evaluation.importers.importer import CACHE, import_suite
from evaluation.importers.suites import suites
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.rules import kept_rules
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.tasks.loaded_code import LoadedCode
from evaluation.tasks.reference import CPU, Reference
from evaluation.tasks.spec import Task
from evaluation.tasks.toml_reader import read_text
from evaluation.types import Reason
from tests.evaluation.importers.suite_checkout import LICENCE, commit, path_of

pytestmark = pytest.mark.timeout(600)
IMPORTED = "ARENA_IMPORTED"
"""Environment variable that names a folder of imported suites."""
HEAD = "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n"
INPUTS = """

batch = 64
features = 48
wide = 32
steps = 2
depth = 34


def get_inputs():
    return [{inputs}]
"""
PROBLEMS = {
    "Linear": (
        """\
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.norm = nn.LayerNorm(out_features)

    def forward(self, x):
        return self.norm(self.linear(x))
""",
        "torch.rand(batch, features)",
        "[features, wide]",
    ),
    "Dropout": (
        """\
    def __init__(self, in_features, out_features, dropout_p):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.norm = nn.BatchNorm1d(out_features)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, x):
        return self.dropout(self.norm(self.matmul(x)))
""",
        "torch.rand(batch, features)",
        "[features, wide, 0.5]",
    ),
    "Constant": (
        """\
    def __init__(self, negative_slope, inplace=False):
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x, dim):
        return nn.functional.leaky_relu(x, self.negative_slope).cumsum(dim)
""",
        "torch.randn(batch, features), 1",
        "[0.25]",
    ),
    "Listed": (
        """\
    def __init__(self, features, depth):
        super().__init__()
        self.factors = [x.item() for x in torch.linspace(1, 2, depth)]
        self.linear = nn.Linear(features, features)
        self.register_buffer("shift", torch.arange(features) / features)

    def forward(self, x):
        for factor in self.factors:
            x = self.linear(x) * factor + self.shift
        return x
""",
        "torch.rand(batch, features, device='cuda')",
        "[features, 3]",
    ),
    "Flat": (
        """\
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        x = self.linear(x).mean(dim=1, keepdim=True)
        return torch.tanh(torch.softmax(x, dim=1))
""",
        "torch.rand(batch, features)",
        "[features, wide]",
    ),
    "Recurrent": (
        """\
    def __init__(self, features, hidden, layers):
        super().__init__()
        self.h0 = torch.randn((layers, batch, hidden))
        self.rnn = nn.GRU(features, hidden, layers)

    def forward(self, x):
        self.h0 = self.h0.to(x.device)
        return self.rnn(x, self.h0)[1]
""",
        "torch.rand(steps, batch, features)",
        "[features, wide, 2]",
    ),
    "OneStateForTwo": (
        """\
    def __init__(self, features, hidden):
        super().__init__()
        self.h0 = torch.randn((1, batch, hidden))
        self.c0 = torch.randn((1, batch, hidden))
        self.rnn = nn.LSTM(features, hidden)

    def forward(self, x):
        self.c0 = self.h0.to(x.device)
        return self.rnn(x, (self.h0, self.c0))[0]
""",
        "torch.rand(steps, batch, features)",
        "[features, wide]",
    ),
    "Stateful": (
        """\
    def __init__(self, features, hidden):
        super().__init__()
        self.hidden = torch.randn((batch, hidden))
        self.mixed = nn.Linear(features + hidden, hidden)

    def forward(self, x):
        self.hidden = self.hidden.to(x.device)
        self.hidden = torch.tanh(self.mixed(torch.cat((x, self.hidden), dim=1)))
        return self.hidden
""",
        "torch.rand(batch, features)",
        "[features, wide]",
    ),
    "Forgotten": (
        """\
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        state = torch.randn_like(x[0])
        for step in x:
            state = state / 64 + self.linear(step)
        return state
""",
        "torch.rand(depth, batch, features)",
        "[features]",
    ),
    "Triangular": (
        """\
    def forward(self, A, B):
        return torch.tril(torch.matmul(A, B))
""",
        "torch.rand(batch, batch).tril(), torch.rand(batch, batch).tril()",
        "[]",
    ),
}
LINEAR = "kb1_1_linear"
OTHER_NAMES = """\
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, fan_in, fan_out):
        super().__init__()
        made = torch.nn.Linear(fan_in, fan_out)
        self.weight_t = made.weight.t().contiguous()
        self.shift = made.bias
        self.fan_out = fan_out

    def forward(self, x):
        return torch.nn.functional.layer_norm(x @ self.weight_t + self.shift, (self.fan_out,))
"""
OTHER_ORDER = """\
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, fan_in, fan_out):
        super().__init__()
        self.unused = torch.nn.Parameter(torch.randn(7))
        self.linear = torch.nn.Linear(fan_in, fan_out)
        self.norm = torch.nn.LayerNorm(fan_out)

    def forward(self, x):
        return self.norm(self.linear(x))
"""
CHANGED_IN_PLACE = """\
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, fan_in, fan_out):
        super().__init__()
        self.linear = torch.nn.Linear(fan_in, fan_out)
        self.norm = torch.nn.LayerNorm(fan_out)
        self.linear.weight.data.neg_()
        self.norm.weight.data.mul_(4)

    def forward(self, x):
        return self.norm(self.linear.bias - x @ self.linear.weight.t()) / 4
"""
WRITES_A_CONSTANT = """\
import math

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()

    def forward(self, x):
        return torch.full((len(x), 1), {value}, device=x.device)
"""
IN_HALF = """\
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, fan_in, fan_out):
        super().__init__()
        self.linear = torch.nn.Linear(fan_in, fan_out).half()
        self.norm = torch.nn.LayerNorm(fan_out)

    def forward(self, x):
        return self.norm(self.linear(x.half()).float())
"""
A_FUNCTION = """\
import torch


def kb1_1_linear(x, linear_weight, linear_bias, norm_weight, norm_bias):
    y = torch.nn.functional.linear(x, linear_weight, linear_bias)
    return torch.nn.functional.layer_norm(y, y.shape[-1:], norm_weight, norm_bias)
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the problems above as tasks."""
    root, into = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("imported")
    files = {"LICENSE": LICENCE}
    for number, (name, (body, inputs, arguments)) in enumerate(PROBLEMS.items(), 1):
        init = f"\n\ndef get_init_inputs():\n    return {arguments}\n"
        files[path_of(number, name)] = HEAD + body + INPUTS.format(inputs=inputs) + init
    commit(root, files)
    suite = suites()["kernelbench"]
    found = import_suite(suite, Checkout.open(root, suite.repository), into)
    assert [each.reason for each in found.outcomes] == [""] * len(PROBLEMS)
    return into / suite.slug


def error_of(task: Task, source: str, folder: Path) -> float:
    """Return the largest error of a source on the first case, as a share of the allowed error."""
    return largest_error(task, source, folder, task.checked_cases()[0])


def task_of(root: Path, name: str) -> Task:
    return load_task(root, name, "torch-to-torch", "cpu")


@pytest.mark.parametrize("number", range(1, len(PROBLEMS) + 1))
def test_own_module_of_a_problem_is_right(imported: Path, number: int, tmp_path: Path) -> None:
    name = next(each.name for each in imported.glob(f"kb1_{number}_*"))
    source = own_module(imported / name)
    assert error_of(task_of(imported, name), source, tmp_path / "candidate") <= 1


@pytest.mark.parametrize(
    "source", [OTHER_NAMES, OTHER_ORDER, IN_HALF, CHANGED_IN_PLACE, A_FUNCTION]
)
def test_weights_are_bound_by_seed_by_name_and_as_arguments(
    imported: Path, source: str, tmp_path: Path
) -> None:
    assert error_of(task_of(imported, LINEAR), source, tmp_path / "candidate") <= 1


def test_class_called_model_is_an_implementation_where_there_is_no_other(
    imported: Path, tmp_path: Path
) -> None:
    source = (imported / LINEAR / "problem.py").read_text()
    assert error_of(task_of(imported, LINEAR), source, tmp_path / "candidate") <= 1


def test_constant_is_right_where_no_input_changes_the_outputs(
    imported: Path, tmp_path: Path
) -> None:
    (name,) = [each.name for each in imported.glob("kb1_*_flat")]
    task = task_of(imported, name)
    right = WRITES_A_CONSTANT.format(value="math.tanh(1)")
    assert error_of(task, right, tmp_path / "candidate") <= 1
    with pytest.raises(SubmissionError):
        error_of(task, WRITES_A_CONSTANT.format(value="0.0"), tmp_path / "other")


def test_each_call_starts_from_the_state_that_the_constructor_makes(
    imported: Path, tmp_path: Path
) -> None:
    (name,) = [each.name for each in imported.glob("kb1_*_stateful")]
    task = task_of(imported, name)
    assert task.operator.source
    assert any("each call starts" in flag for flag in task.operator.source.flags)
    renamed = own_module(imported / name).replace("self.hidden", "self.state")
    assert error_of(task, renamed, tmp_path / "renamed") <= 1
    forgetful = renamed.replace("self.state = self.state.to", "self.state = 0 * self.state.to")
    with pytest.raises(SubmissionError) as raised:
        error_of(task, forgetful, tmp_path / "forgetful")
    assert raised.value.reason is Reason.WRONG_VALUES


def test_random_state_that_many_steps_forget_is_judged_with_half_of_them_or_more(
    imported: Path, tmp_path: Path
) -> None:
    (name,) = [each.name for each in imported.glob("kb1_*_forgotten")]
    task = task_of(imported, name)
    assert min(case["depth"] for case in task.checked_cases()) >= 17
    from_zero = own_module(imported / name).replace("torch.randn_like(x[0])", "0 * x[0]")
    assert error_of(task, from_zero, tmp_path / "from_zero") <= 1


def test_weights_of_another_seed_are_wrong(imported: Path, tmp_path: Path) -> None:
    source = OTHER_NAMES.replace("made =", "torch.manual_seed(5)\n        made =")
    with pytest.raises(SubmissionError) as raised:
        error_of(task_of(imported, LINEAR), source, tmp_path / "candidate")
    assert raised.value.reason is Reason.WRONG_VALUES


def test_weights_follow_from_the_seed_of_a_verdict(imported: Path) -> None:
    operator = task_of(imported, LINEAR).operator
    case = task_of(imported, LINEAR).checked_cases()[-1]
    one, again, other = (
        Reference(operator, case, seed=seed).weights["linear_weight"] for seed in (1, 1, 2)
    )
    unseeded = [Reference(operator, case).weights["linear_weight"] for _ in range(2)]
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert not torch.equal(*unseeded)


def test_operations_of_an_imported_problem_bound_no_time(imported: Path, task: Task) -> None:
    assert task_of(imported, LINEAR).operator.least_operations(2e9) == 0
    assert task.operator.least_operations(2e9) == 2e9


def test_changed_weights_are_found(imported: Path) -> None:
    task = task_of(imported, LINEAR)
    with BufferRing(OperatorWorkload(task.operator, task.checked_cases()[0]), 2) as ring:
        ring.check_weights("here")
        assert ring.weights is not None
        ring.weights.slot(0)["linear_bias"][0] += 1
        with pytest.raises(SubmissionError) as raised:
            ring.check_weights("here")
    assert raised.value.reason is Reason.INPUT_MUTATED


def test_inputs_that_a_suite_makes_are_drawn_whole(imported: Path) -> None:
    (task,) = [task_of(imported, each.name) for each in imported.glob("kb1_*_triangular")]
    assert [argument.structured for argument in task.operator.activations] == [True, True]


def test_float32_problems_are_judged_by_the_rule_tf32(imported: Path) -> None:
    assert task_of(imported, LINEAR).operator.precision == "tf32"


@pytest.mark.parametrize(
    ("bits", "error", "expected"),
    [
        (23, 0.0, ["suite", "tf32", "ieee"]),
        (10, 0.0, ["tf32"]),
        (23, 3e-5, ["suite", "tf32"]),
        (23, 1e-2, []),
    ],
)
def test_rules_of_precision_depend_on_the_largest_error(
    imported: Path, bits: int, error: float, expected: list[str]
) -> None:
    task = task_of(imported, LINEAR)
    reference = Reference(task.operator, task.checked_cases()[0], seed=1)
    inputs = reference.draw()
    wide = {name: value.double() for name, value in inputs.items()}
    x = torch.round(wide["x"] * 2**bits) / 2**bits
    y = x @ wide["linear_weight"].T + wide["linear_bias"]
    y = torch.nn.functional.layer_norm(y, y.shape[-1:], wide["norm_weight"], wide["norm_bias"])
    outputs = {"out": (y + error).float()}
    assert kept_rules(reference, inputs, outputs) == expected


def test_process_for_task_code_has_the_weights_and_the_call_that_the_code_has_here(
    imported: Path, fork_server: ForkServer
) -> None:
    task = task_of(imported, LINEAR)
    operator, case = task.operator, task.checked_cases()[0]
    here = LoadedCode.of(operator)
    text = read_text(operator.folder / "reference.py")
    with closing(TaskProcess(fork_server, operator, text, "cpu")) as process:
        (weights, next_draw), (expected, expected_next) = (
            code.weights(case, CPU, 5) for code in (process, here)
        )
        assert next_draw == expected_next
        assert weights.keys() == expected.keys() == {a.name for a in operator.weights}
        assert all(torch.equal(weights[name], value) for name, value in expected.items())
        assert process.suite_call(case) == here.suite_call(case)
        assert here.suite_call(case) is not None
        drawn, drawn_here = (
            code.draw(case, CPU, "nominal", [1, 2], weights=False) for code in (process, here)
        )
        assert [each.keys() for each in drawn] == [{"x"}, {"x"}]
        stacked = {"x": torch.stack([each["x"] for each in drawn])}
        assert torch.equal(stacked["x"], torch.stack([each["x"] for each in drawn_here]))
        found, expected_of_many = (
            code.launches(case, {**stacked, **weights}, many=True) for code in (process, here)
        )
        (exact,), (sizes,) = found.outputs()
        (exact_here,), _ = expected_of_many.outputs()
        torch.testing.assert_close(exact, exact_here, rtol=1e-12, atol=1e-12)
        (_, (with_cut_operands,)) = found.outputs(cut=1.0)
        assert with_cut_operands.mean() > 10 * sizes.mean()


@pytest.mark.skipif(not os.environ.get(IMPORTED), reason=f"{IMPORTED} names no imported suites")
def test_own_module_of_every_problem_of_kernelbench_is_right(tmp_path: Path) -> None:
    output = tmp_path / "own.json"
    own_references.main(["--imported", os.environ[IMPORTED], "--output", str(output)])
    found = json.loads(output.read_text())["problems"]
    failed = {n: each for n, each in found.items() if each["status"] == own_references.FAILED}
    assert found and not failed


def test_own_modules_are_tried_in_processes_of_their_own(imported: Path, tmp_path: Path) -> None:
    output = tmp_path / "own.json"
    arguments = ["--imported", str(imported.parent), "--output", str(output)]
    assert own_references.main([*arguments, "kb1_1_*"]) == 0
    assert own_references.main([*arguments, "kb1_2_*"]) == 0
    data = json.loads(output.read_text())
    assert data["counts"]["kernelbench level 1"] == {"passed": 2}


def test_problems_that_were_not_imported_are_listed_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "kernelbench").mkdir()
    refused = {"kb3_4_net": {"reason": "random", "sha256": "0"}}
    (tmp_path / "kernelbench" / CACHE).write_text(json.dumps({"refused": refused, "version": 0}))
    output = tmp_path / "own.json"
    assert own_references.main(["--imported", str(tmp_path), "--output", str(output)]) == 1
    data = json.loads(output.read_text())
    assert data["problems"]["kb3_4_net"]["reason"] == "random"
    assert "kb3_4" not in data["problems"] and "kb3_5" in data["problems"]
    assert sum(each["not imported"] for each in data["counts"].values()) == 500
