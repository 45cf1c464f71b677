"""A Helion kernel becomes Triton's: compiled for GPUs that are not here, and interpreted."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from evaluation.code.languages import helion, languages
from evaluation.errors import Broken, Rejected, Unsupported
from evaluation.judge.request import Request
from evaluation.kinds.kernel.builds import build
from evaluation.kinds.kernel.judge import evaluate
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.spec import Task
from evaluation.types import GateName, Reason, Verdict

HELION = languages()["helion"]
FOLDER = Path(__file__).parent / "operators"
installed = pytest.mark.skipif(
    not importlib.util.find_spec(helion.PACKAGE), reason=f"needs {helion.REQUIREMENT}"
)

HONEST = """\
import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[256]))
def scale(x, out, by):
    for tile in hl.tile(out.size(0)):
        out[tile] = torch.mul(x[tile], by)


def twice(x, out, by):
    scale(x.view(-1), out.view(-1), by)
"""


@pytest.fixture
def task() -> Task:
    return load_task(FOLDER, "twice", "torch-to-helion")


@pytest.fixture(autouse=True)
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile for the same GPU, whichever is here."""
    monkeypatch.setenv("ARENA_CUDA_ARCH", "sm_90a")


@installed
@pytest.mark.slow
def test_kernel_is_compiled_for_a_gpu_that_is_not_here(task: Task, cache: Path) -> None:
    (output,) = build(task, "helion", {"twice.py": HONEST}, cache).outputs
    assert (output.arch, output.ok) == ("cuda:90", True)
    assert 0 < output.resources["_helion_scale"]["registers"] <= 255


@installed
@pytest.mark.slow
@pytest.mark.usefixtures("shared_fork_server")
def test_correctness_is_judged_by_the_interpreter(task: Task, cache: Path) -> None:
    report = evaluate(Request(task, {"twice.py": HONEST}, cache, scope="round"))
    verdicts = {result.gate: result.verdict for result in report.gates}
    assert report.verdict is Verdict.PASSED, report.message
    assert verdicts[GateName.CORRECTNESS] is Verdict.PASSED
    wrong = HONEST.replace("torch.mul(x[tile], by)", "x[tile] + by")
    report = evaluate(Request(task, {"twice.py": wrong}, cache, scope="round"))
    assert (report.verdict, report.reason) == (Verdict.FAILED, Reason.WRONG_VALUES)


@pytest.mark.parametrize(
    "line",
    [
        "torch.mul(x, by, out=out)",
        "out.addmm_(x, x)",
        "out.copy_(x)",
        "scale.fn(x, out, by)",
        "from helion.runtime import kernel",
        "helion.RefMode.EAGER",
    ],
)
def test_library_call_outside_the_loops_is_refused(line: str, task: Task) -> None:
    within = HONEST.replace("    for tile", f"    {line}\n    for tile")
    for source in (f"{HONEST}    {line}\n", within):
        with pytest.raises((Rejected, Unsupported)):
            HELION.check({"twice.py": f"{source}    kernel\n"}, task)


def test_kernel_that_pytorch_would_run_is_rejected(task: Task) -> None:
    source = HONEST.replace("config=", "ref_mode=1, config=")
    with pytest.raises(Rejected, match="`ref_mode` runs the kernel by PyTorch"):
        HELION.check({"twice.py": source}, task)


def test_honest_kernel_reads_well_and_a_source_without_one_does_not(task: Task) -> None:
    HELION.check({"twice.py": HONEST}, task)
    with pytest.raises(Rejected) as caught:
        HELION.check({"twice.py": "def twice(x, out, by):\n    pass\n"}, task)
    assert caught.value.rule == "no-kernel"


@pytest.mark.skipif(bool(importlib.util.find_spec(helion.PACKAGE)), reason="Helion is here")
def test_missing_package_is_named_with_its_remedy(task: Task, cache: Path) -> None:
    with pytest.raises(Broken, match=r"helion is not installed; install it: .*helion=="):
        build(task, "helion", {"twice.py": HONEST}, cache)
