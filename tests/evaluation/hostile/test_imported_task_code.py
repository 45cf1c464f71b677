"""A hostile problem of a suite, from its import to a verdict: its code reaches nothing.

Static analysis refuses its plain form. The other form hides its names, and is imported.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from evaluation.bench.process.fork_server import ForkServer
from evaluation.importers.checkout import Checkout
from evaluation.importers.importer import import_suite
from evaluation.importers.outcome import FIRST_CLASS, REFUSED
from evaluation.importers.suites import suites
from evaluation.judge.request import Request
from evaluation.kinds.kernel.judge import evaluate
from evaluation.kinds.kernel.load import load_operator, load_task
from evaluation.sandbox.features import isolation_features
from evaluation.tasks.loaded_code import LoadedCode
from evaluation.types import Case, GateName, Split, Verdict
from tests.evaluation.importers.suite_checkout import LICENCE, commit, path_of

HOSTILE = """\
import torch
import torch.nn as nn
{top}


class Model(nn.Module):
    def machine(self):
        {machine}

    def attempts(self):
        machine = self.machine()
        yield lambda: machine.environ["SECRET_OF_THE_JUDGE"]
        yield lambda: machine.listdir({home!r})
        yield lambda: machine.stat({home!r} + "/secret_key") and getattr(machine, "open")(
            {home!r} + "/secret_key", 0
        )
        yield lambda: getattr(machine, "open")({cases!r}, 0)
        yield lambda: machine.listdir("/proc/{judge}/fd")
        yield lambda: machine.makedirs({made!r}, exist_ok=True)
        yield lambda: self.hidden(machine)

    def hidden(self, machine):
        loaded = getattr(machine, "".join(["s", "ys"])).modules
        objects = getattr(loaded["gc"], "get_objects")()
        cases = [each for each in objects if type(each).__name__ == "Case"]
        return [each for each in cases if each.name.startswith("fresh-")][0]

    def forward(self, x):
        reached = 0
        for attempt in self.attempts():
            try:
                attempt()
            except Exception:
                continue
            reached += 1
        return torch.relu(x) + reached


batch = 64
features = 96


def get_inputs():
    return [torch.rand(batch, features)]


def get_init_inputs():
    return []
"""
PLAIN = {"top": "from torch import os", "machine": "return os"}
HIDDEN = {
    "top": "",
    "machine": """names = getattr(self.forward, "__".join(["", "globals", ""]))
        return getattr(names["torch"], "".join(["o", "s"]))""",
}
ATTEMPTS = 7
SUITE = suites()["kernelbench"]

pytestmark = [
    pytest.mark.serial,
    pytest.mark.slow,
    pytest.mark.skipif(not isolation_features().any, reason="no isolation here"),
    pytest.mark.timeout(600),
]


def test_hidden_form_of_a_hostile_problem_is_imported_and_reaches_nothing(
    tmp_path: Path,
    cache: Path,
    fork_server: ForkServer,
    in_a_hurry: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home, tasks = tmp_path / "home", tmp_path / "imported" / "kernelbench"
    home.mkdir(0o700)
    (home / "secret_key").write_text("hidden")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")  # set by a baseline, restored afterwards
    monkeypatch.setenv("ARENA_HOME", str(home))
    monkeypatch.setenv("SECRET_OF_THE_JUDGE", "hidden")
    paths = {
        "home": str(home),
        "made": str(tmp_path / "made"),
        "cases": str(tasks / "kb1_2_hidden" / "task.toml"),
        "judge": os.getpid(),
    }
    files = {
        "LICENSE": LICENCE,
        path_of(1, "Plain"): HOSTILE.format(**PLAIN, **paths),
        path_of(2, "Hidden"): HOSTILE.format(**HIDDEN, **paths),
    }
    commit(tmp_path / "checkout", files)
    found = import_suite(
        SUITE, Checkout.open(tmp_path / "checkout", SUITE.repository), tmp_path / "imported"
    )
    kinds = {each.name: (each.kind, each.reason) for each in found.outcomes}
    assert kinds["kb1_1_plain"][0] == REFUSED, kinds
    assert kinds["kb1_2_hidden"][0] == FIRST_CLASS, kinds

    task = load_task(tasks, "kb1_2_hidden", "torch-to-torch", "cpu")
    source = "import torch\n\n\ndef kb1_2_hidden(x):\n    return torch.relu(x)\n"
    report = evaluate(
        Request(task, {task.target_file: source}, cache, scope="final"), fork_server=fork_server
    )
    # Each expected value would be another one, had the reference reached anything.
    verdicts = {gate.gate: gate.verdict for gate in report.gates}
    assert verdicts[GateName.CORRECTNESS] is Verdict.PASSED, report
    assert verdicts[GateName.GENERALIZATION] is Verdict.PASSED, report
    assert not (tmp_path / "made").exists()

    # In a judge's own process the same code would reach all of it.
    operator = load_operator(tasks / "kb1_2_hidden")
    case = min(operator.cases, key=operator.elements)
    fresh = Case("fresh-0", Split.SAMPLED, "sampled", case.dtype, case.symbols)
    code = LoadedCode.of(operator)
    (inputs,) = code.draw(fresh, torch.device("cpu"), "nominal", [1])
    ((exact,), _) = code.launches(fresh, inputs).outputs()
    assert torch.equal(exact, torch.relu(inputs["x"].double()) + ATTEMPTS)
    assert (tmp_path / "made").is_dir()
