"""Tests of the import of a suite: every outcome, and what a second import does."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from evaluation.__main__ import main
from evaluation.errors import RequestError
from evaluation.importers import command
from evaluation.importers.checkout import Checkout
from evaluation.importers.importer import import_suite
from evaluation.importers.outcome import FIRST_CLASS, REFUSED, Import, duplicates
from evaluation.importers.suites import suites
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.source import CONSTANT
from tests.evaluation.importers.suite_checkout import LICENCE, SCALED, commit, path_of, problem

pytestmark = pytest.mark.timeout(600)
ESCAPE = 'getattr(torch.ones(9, device="cpu").numpy(), "file".join(["to", ""]))("{path}")'
HOSTILE = """import torch
import torch.nn as nn
from torch import os


class Model(nn.Module):
    def forward(self, x):
        try:
            os.makedirs("{path}", exist_ok=True)
        except OSError:
            pass
        return torch.relu(x)


def get_inputs():
    return [torch.rand(64, 96)]


def get_init_inputs():
    return []
"""
FUTURE = "from __future__ import annotations\n\n"
TUPLE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(x)


batch, features = 64, 192


def get_inputs():
    return [torch.rand(batch, features)]


def get_init_inputs():
    return [features]
"""
STATEFUL = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.hidden = torch.randn(features)
        self.mixed = nn.Linear(features, features)

    def forward(self, x):
        self.calls = getattr(self, "calls", 0) + 1
        return self.mixed(x * self.hidden.to(x.device)) * self.calls


batch, features = 16, 32


def get_inputs():
    return [torch.rand(batch, features)]


def get_init_inputs():
    return [features]
"""
SUITE = suites()["kernelbench"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """Return a checkout with good problems, and one for each reason of a refusal."""
    root = tmp_path_factory.mktemp("checkout")
    escape = ESCAPE.format(path=root.parent / "escaped")
    files = {
        "LICENSE": LICENCE,
        path_of(1, "Scaled"): SCALED,
        path_of(2, "Constant"): problem("torch.relu(-(x - x).abs()) * self.weight"),
        path_of(3, "Random"): problem("x * self.weight * torch.rand_like(x)"),
        path_of(4, "Outside"): problem("x * self.weight", before=escape),
        path_of(5, "Imports"): problem(
            "x * self.weight", before="socket.socket()", top="import socket"
        ),
        path_of(6, "Syntax"): SCALED.replace("def forward(", "def forward("[:-1]),
        path_of(7, "Edited"): SCALED,
        path_of(8, "Missing"): SCALED,
        path_of(19, "ReLU"): HOSTILE.format(path=root.parent / "escaped"),
        path_of(10, "Future"): f'"""A file with words of its own."""\n{FUTURE}{SCALED}',
        path_of(11, "Tuple"): TUPLE,
        path_of(12, "Stateful"): STATEFUL,
        path_of(9, "Again"): SCALED.replace('    """Scales the columns."""\n\n', ""),
        "KernelBench/level4/1_Hub.py": SCALED,
    }
    commit(root, files)
    (root / path_of(7, "Edited")).write_text(SCALED + "# edited\n")
    (root / path_of(8, "Missing")).unlink()
    return root


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("imported")


@pytest.fixture(scope="module")
def first(checkout: Path, target: Path) -> Import:
    return import_suite(SUITE, Checkout.open(checkout, SUITE.repository), target)


def reasons(found: Import) -> dict[str, str]:
    return {each.name.split("_")[1]: each.reason for each in found.outcomes}


def test_import_of_good_problems_gives_tasks(first, checkout, target):
    kinds = {each.name: each.kind for each in first.outcomes}
    assert [name for name, kind in kinds.items() if kind == FIRST_CLASS] == [
        "kb1_1_scaled",
        "kb1_2_constant",
        "kb1_9_again",
        "kb1_10_future",
        "kb1_11_tuple",
    ]
    assert len(first.outcomes) == 13  # level 4 is left out
    task = load_task(target / "kernelbench", "kb1_1_scaled", "torch-to-torch", "cpu")
    assert [a.name for a in task.operator.arguments] == ["x", "weight", "out"]
    assert "Scales the columns." in task.operator.prompt
    again = load_task(target / "kernelbench", "kb1_9_again", "torch-to-torch", "cpu")
    assert again.operator.prompt.count("\n\n") == 1, "it has none of PyTorch's own class"
    future = load_task(target / "kernelbench", "kb1_10_future", "torch-to-torch", "cpu")
    assert "Future" in future.operator.prompt
    assert "words of its own" in future.operator.prompt
    both = load_task(target / "kernelbench", "kb1_11_tuple", "torch-to-torch", "cpu")
    assert {"batch", "features"} <= set(both.operator.domain.symbols)


def test_import_keeps_the_file_with_its_origin(first, checkout, target):
    folder = target / "kernelbench" / "kb1_1_scaled"
    assert (folder / "problem.py").read_bytes() == (checkout / path_of(1, "Scaled")).read_bytes()
    source = tomllib.loads((folder / "task.toml").read_text())["source"]
    assert source["licence"] == "MIT" and source["path"] == path_of(1, "Scaled")
    assert source["commit"] == first.commit and len(first.commit) == 40
    assert source["repository"] == SUITE.repository
    assert (target / "kernelbench" / "LICENSE").read_text() == LICENCE


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("3", "random"),
        ("4", "escaped"),
        ("5", "`socket` may not be imported"),
        ("12", "keeps state: a second call with the same inputs differs"),
        ("6", "not valid Python: line 13"),
        ("19", "`torch.os` may not be imported"),
        ("7", "differs from the commit"),
        ("8", "differs from the commit"),
    ],
)
def test_import_refuses_a_problem_with_its_reason(first, checkout, number, words):
    assert words in reasons(first)[number]
    assert not (checkout.parent / "escaped").exists()


def test_problem_whose_outputs_no_input_changes_is_imported_with_a_flag(first, target):
    flags = {each.name: each.flags for each in first.outcomes if each.kind == FIRST_CLASS}
    assert [name for name, found in flags.items() if CONSTANT in found] == ["kb1_2_constant"]
    assert flags["kb1_2_constant"] == (CONSTANT,)
    task = load_task(target / "kernelbench", "kb1_2_constant", "torch-to-torch", "cpu")
    assert task.operator.source and task.operator.source.flags == (CONSTANT,)


def test_import_finds_the_same_computation_by_its_fingerprint(first):
    table = first.to_json()
    assert duplicates([table]) == {
        first.outcomes[0].fingerprint: [
            "kernelbench/kb1_1_scaled",
            "kernelbench/kb1_9_again",
            "kernelbench/kb1_10_future",
        ]
    }
    assert table["counts"] == {"problems": 13, FIRST_CLASS: 5, REFUSED: 8}


def test_second_import_changes_nothing(first, checkout, target):
    def state() -> dict[str, float]:
        return {str(p): p.stat().st_mtime_ns for p in target.rglob("*")}

    before = state()
    again = import_suite(SUITE, Checkout.open(checkout, SUITE.repository), target)
    assert again.to_json() == first.to_json()
    assert {each.written for each in again.outcomes} == {"unchanged", ""}
    assert state() == before


def test_newer_commit_makes_new_versions_of_changed_problems(first, checkout, target):
    def version() -> str:
        root = target / "kernelbench"
        return load_task(root, "kb1_9_again", "torch-to-torch", "cpu").hash

    before = version()
    commit(checkout, {path_of(9, "Again"): SCALED.replace("* self.factor", "* self.factor + x")})
    newer = import_suite(
        SUITE, Checkout.open(checkout, SUITE.repository), target, only=["kb1_[19]_*"]
    )
    assert [each.written for each in newer.outcomes] == ["unchanged", "changed"]
    assert version() != before and newer.commit != first.commit


def test_import_of_another_folder_is_refused_with_a_remedy(tmp_path):
    with pytest.raises(RequestError, match="not a checkout of Git"):
        Checkout.open(tmp_path, "")
    with pytest.raises(RequestError, match="no such folder"):
        Checkout.open(tmp_path / "none", "")
    commit(tmp_path, {"LICENSE": LICENCE})
    with pytest.raises(RequestError, match="is it a checkout of https"):
        import_suite(SUITE, Checkout.open(tmp_path, ""), tmp_path / "imported")


@pytest.mark.parametrize("option", ["into", "table"])
def test_command_that_cannot_write_is_refused_before_it_imports(option, tmp_path, capsys):
    checkout = tmp_path / "suite"
    commit(checkout, {"LICENSE": LICENCE, path_of(5, "Scaled"): SCALED})
    (tmp_path / "file").touch()
    places = {"into": tmp_path / "imported", "table": None, option: tmp_path / "file" / "x"}
    options = command.argparse.Namespace(suite="kernelbench", checkout=checkout, only=[], **places)
    with pytest.raises(RequestError, match=r"file/x.*; name another"):
        command.import_tasks(options)
    assert "first-class" not in capsys.readouterr().out


def test_command_that_finds_no_problem_shows_no_licence(tmp_path, capsys):
    checkout = tmp_path / "suite"
    commit(checkout, {"LICENSE": LICENCE})
    options = command.argparse.Namespace(
        suite="kernelbench", checkout=checkout, into=tmp_path / "imported", only=[], table=None
    )
    with pytest.raises(RequestError, match="no problems"):
        command.import_tasks(options)
    assert capsys.readouterr().out == ""


def test_command_shows_the_licence_once(tmp_path, capsys):
    checkout, into = tmp_path / "suite", tmp_path / "imported"
    commit(
        checkout, {"LICENSE": LICENCE, path_of(5, "Imports"): "import socket\nsocket.socket()\n"}
    )
    options = command.argparse.Namespace(
        suite="kernelbench", checkout=checkout, into=into, only=[], table=tmp_path / "table.json"
    )
    assert command.import_tasks(options) == 1
    assert "Permission is hereby granted" in capsys.readouterr().out
    assert command.import_tasks(options) == 1
    shown = capsys.readouterr().out
    assert "Permission" not in shown and "`socket` may not be imported" in shown
    assert '"refused": 1' in (tmp_path / "table.json").read_text()


def test_command_imports_the_problems_that_any_glob_matches(tmp_path, capsys):
    checkout, into = tmp_path / "suite", tmp_path / "imported"
    refused = "import socket\nsocket.socket()\n"
    names = {5: "Sum", 6: "Mean", 7: "Norm"}
    commit(
        checkout, {"LICENSE": LICENCE, **{path_of(n, name): refused for n, name in names.items()}}
    )
    words = ["import", "kernelbench", str(checkout), "--into", str(into)]

    assert main([*words, "--only", "kb1_5_*", "--only", "*Norm*"]) == 1
    shown = capsys.readouterr().out
    assert "kb1_5_sum" in shown and "kb1_7_norm" in shown and "kb1_6_mean" not in shown
    assert main([*words, "--only", "kb1_5_*", "--only", "*softmax*"]) == 2
    assert "no problems of KernelBench match '*softmax*'" in capsys.readouterr().err
