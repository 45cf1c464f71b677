"""Tests of the copy of returned outputs: both sides pay for it, up to a speedup of 1."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evaluation.bench.devices import detect
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.timing.plan import plan_for
from evaluation.code.languages._signature import names_all
from evaluation.device_kind import CPU
from evaluation.kinds.kernel.builds import COPYING, baselines, build
from evaluation.kinds.kernel.gates import performance
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.session import MeasurementSession
from evaluation.kinds.kernel.torch_variants import EAGER, source
from evaluation.tasks.spec import Task
from evaluation.types import Measurement, Split

TASKS = Path(__file__).resolve().parents[5] / "tasks"
MODULE = """
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x, weight):
        return reference(x, weight, self.eps)
"""
FILLED = """

def {name}(x, weight, out, eps):
    answer = reference(x, weight, eps)
    for _ in range(8):  # one copy takes less than a busy machine's times spread
        out.copy_(answer)
"""
SLOWER = """

def {name}(x, weight, eps):
    reference(x, weight, eps)
    return reference(x, weight, eps)
"""


def measurement(speedup: float, low: float, high: float) -> Measurement:
    return Measurement(
        case="a", split=Split.SEEN, kind="nominal", dtype="float32", symbols={},
        baseline=f"eager{COPYING}", candidate_us=2.0, baseline_us=2.0 * speedup, speedup=speedup,
        low=low, high=high, blocks=5, noisy=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("speedup", "counted"),
    [
        ((0.8, 0.7, 0.9), (0.8, 0.7, 0.9, 1.6)),
        ((0.99, 0.97, 1.01), (0.99, 0.97, 1.01, 1.98)),
        ((1.2, 0.9, 1.3), (1.0, 0.9, 1.0, 2.0)),
        ((1.2, 1.1, 1.3), (1.0, 1.0, 1.0, 2.0)),
    ],
)
def test_copy_counts_up_to_a_speedup_of_one(
    speedup: tuple[float, float, float], counted: tuple[float, ...]
) -> None:
    found = performance.up_to_parity(measurement(*speedup))
    assert (found.speedup, found.low, found.high, found.baseline_us) == pytest.approx(counted)


class _Session:
    """A session whose baselines take these speedups."""

    def __init__(self, plain: float, copying: float | None) -> None:
        self.plain, self.copying = plain, copying
        self.asked: list[str] = []

    def copying_baseline(self) -> str:
        return "" if self.copying is None else f"eager{COPYING}"

    def measure(self, case: Any, plan: Any, baseline: str = "") -> Measurement:
        self.asked.append(baseline)
        speedup = self.plain if not baseline else self.copying
        assert speedup is not None
        found = measurement(speedup, speedup - 0.01, speedup + 0.01)
        return dataclasses.replace(found, baseline=baseline or "eager")


@pytest.mark.parametrize(
    ("plain", "copying", "speedup", "asked"),
    [
        (0.5, 0.9, 0.9, ["", f"eager{COPYING}"]),
        (0.8, 1.4, 1.0, ["", f"eager{COPYING}"]),
        (1.1, 1.9, 1.1, [""]),
        (0.5, None, 0.5, [""]),
    ],
    ids=["slower", "slower for its copy", "faster", "filling"],
)
def test_only_a_slower_candidate_that_returns_meets_the_copying_baseline(
    plain: float, copying: float | None, speedup: float, asked: Sequence[str]
) -> None:
    session = _Session(plain, copying)
    trial: Any = SimpleNamespace(session=session)
    found = performance.measure(trial, SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
    assert found.speedup == speedup and session.asked == asked
    note = performance._copies([found])
    assert ("fill them to save the copy" in note) is (len(asked) == 2)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f(x, out): pass", True),
        ("def f(x, *, out=None): pass", True),
        ("def f(x): pass", False),
        ("f = lambda x, out: None", True),
        ("def g(x, out): pass\nf = torch.compile(g)", True),
        ("def g(x): pass\nf = torch.compile(g, dynamic=True)", False),
        ("class ModelNew:\n    def forward(self, x, out): pass", True),
        ("class ModelNew:\n    def forward(self, x): pass", False),
        ("class M:\n    def forward(self, x, out): pass\nf = M()", True),
        ("class ModelNew:\n    def forward(self, x, out): pass\ndef f(x): pass", False),
        ("f = made_elsewhere()", False),
        ("f = f", False),
        ("f = torch.ops.mine.f", False),
        ("def f(x, out): pass\nf = torch.compile(f)", True),
        ("def f(x): pass\nf = torch.compile(f)", False),
        ("def f(x, out): pass\ng = f\ndef f(x): pass\nf = wrap(g)", True),
        ("f = torch.compile(f)", False),
        ("", False),
    ],
)
def test_signature_is_read_from_the_source(text: str, names: bool) -> None:
    assert names_all(ast.parse(text), ("f", "ModelNew"), ["out"]) is names


@pytest.fixture(scope="module")
def norm() -> Task:
    """Return RMS norm in PyTorch on a CPU, with one case that a copy makes much slower."""
    task = load_task(TASKS, "rms_norm", "torch-to-torch", CPU)
    cases = [case for case in task.operator.cases if case.name == "llama-1b-prefill"]
    return dataclasses.replace(task, operator=dataclasses.replace(task.operator, cases=cases))


def judged(task: Task, ending: str, cache: Path, fork_server: ForkServer) -> Measurement:
    """Return the median of three quiet measurements against eager PyTorch, in nine at most."""
    files = {task.target_file: source(task.operator, ending)}
    candidate = build(task, "torch", files, cache)
    eager = baselines(task, cache)[:1]
    with MeasurementSession(task, fork_server, eager, cache) as session:
        session.set_candidate(candidate, detect.device_for(CPU, cache))
        trial: Any = SimpleNamespace(session=session)
        case, plan = task.operator.cases[0], plan_for(CPU, final=False)
        found: list[Measurement] = []
        while len(found) < 9 and sum(not measured.noisy for measured in found) < 3:
            found.append(performance.measure(trial, case, plan))
    quietest = sorted(found, key=lambda measured: measured.noisy)[:3]
    return sorted(quietest, key=lambda measured: measured.speedup)[1]


@pytest.mark.slow
@pytest.mark.serial
@pytest.mark.parametrize("ending", [EAGER, MODULE], ids=["function", "module"])
def test_identical_code_that_returns_its_outputs_is_as_fast_as_its_baseline(
    ending: str, norm: Task, cache: Path, fork_server: ForkServer
) -> None:
    found = judged(norm, ending, cache, fork_server)
    assert found.baseline == f"eager{COPYING}", "without a copy the baseline is faster"
    assert found.high > 0.85 and found.speedup <= 1.0, found


@pytest.mark.slow
@pytest.mark.serial
def test_twice_the_work_that_returns_its_outputs_is_slower_than_its_baseline(
    norm: Task, cache: Path, fork_server: ForkServer
) -> None:
    found = judged(norm, SLOWER, cache, fork_server)
    assert found.baseline == f"eager{COPYING}" and 0.4 < found.speedup < 0.9, found


@pytest.mark.slow
@pytest.mark.serial
def test_code_that_copies_into_its_outputs_itself_pays_for_its_copies(
    norm: Task, cache: Path, fork_server: ForkServer
) -> None:
    found = judged(norm, FILLED, cache, fork_server)
    assert found.baseline == "eager" and found.speedup < 1, found
