"""Tests of AgentKernelArena's problems: modules that have the names of their files."""

from __future__ import annotations

import tomllib

import pytest

from evaluation.importers.checkout import Checkout
from evaluation.importers.files import Files
from evaluation.importers.importer import import_suite
from evaluation.importers.outcome import FIRST_CLASS, REFUSED
from evaluation.importers.sandboxed.forms.named_module import sources
from evaluation.importers.sandboxed.observation import Unsupported
from evaluation.importers.suites import suites
from tests.evaluation.importers.suite_checkout import commit

SUITE = suites()["agentkernelarena"]
SHIFT = """import torch


class Part(torch.nn.Module):
    def forward(self, x):
        return x * 2


class FusedShift(torch.nn.Module):
    def __init__(self, channels, by=0.5):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.ones(channels))
        self.by = by
        self.part = Part()

    def forward(self, x):
        return self.part(x + self.bias) - self.by


def get_inputs():
    for rows in ([128], [256]):
        yield [torch.randn(rows[0], 96)]


def get_init_inputs():
    return [[], {"channels": 96}]
"""
FILES = {
    "LICENSE": "Apache License\nVersion 2.0, January 2004\n",
    "tasks/torch2hip/gpumode/FusedShift/pytorch_code_module/py_17_FusedShift.py": SHIFT,
    "tasks/torch2hip/gpumode/FusedShift/pytorch_code_functional/py_17_FusedShift_func.py": "1 / 0",
    "tasks/hip2hip/gpumode/Other/pytorch_code_module/py_18_Other.py": SHIFT,
    "tasks/triton2triton/vllm/softmax/runner.py": "",
}


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("aka")
    commit(folder / "suite", FILES)
    found = import_suite(SUITE, Checkout.open(folder / "suite", SUITE.repository), folder / "into")
    return folder / "into" / SUITE.slug, {each.name: each for each in found.outcomes}


def test_module_with_the_name_of_its_file_is_imported(imported):
    folder, outcomes = imported
    assert outcomes.keys() == {"aka_t2h_fusedshift", "aka_h2h_other"}, "one problem for a module"
    assert outcomes["aka_t2h_fusedshift"].kind == FIRST_CLASS, outcomes["aka_t2h_fusedshift"]
    task = tomllib.loads((folder / "aka_t2h_fusedshift" / "task.toml").read_text())
    assert (task["category"], task["title"]) == (
        "Fusion",
        "FusedShift (AgentKernelArena torch2hip)",
    )
    assert [a["name"] for a in task["arguments"]] == ["x", "bias", "out"]
    assert sorted(task["models"]["published"].values()) == [96, 128], "the first configuration"
    assert (folder / "aka_t2h_fusedshift" / "problem.py").read_text() == SHIFT


def test_file_without_its_module_is_refused(imported):
    outcome = imported[1]["aka_h2h_other"]
    assert outcome.kind == REFUSED
    assert "has no class with the name of its file, py_18_Other" in outcome.reason


def test_sources_names_the_longest_class_that_ends_the_name():
    source = "class Loss: pass\nclass CrossLoss: pass\n"
    files = Files(source)
    assert list(sources(files, "py_3_CrossLoss")) == [f"{source}\n\nModel = CrossLoss\n"]
    assert list(sources(Files("class Model: pass\n"), "py_4_Model")) == ["class Model: pass\n"]
    with pytest.raises(Unsupported, match="py_5_MyLoss"):
        list(sources(files, "py_5_MyLoss"))
