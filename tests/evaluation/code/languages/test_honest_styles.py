"""Tests of honest kernels for a GPU, in styles that people write, on a CPU as far as it can."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from evaluation.bench.devices import detect
from evaluation.bench.process.fork_server import ForkServer
from evaluation.code.languages import languages
from evaluation.device_kind import CPU
from evaluation.errors import SubmissionError, Unsupported
from evaluation.judge.request import Request
from evaluation.kinds.kernel.builds import baselines, build
from evaluation.kinds.kernel.judge import evaluate
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.session import MeasurementSession
from evaluation.tasks.spec import Task
from evaluation.types import GateName, Reason, Split, Verdict
from tests.gpu.submissions import Submission

TESTS = Path(__file__).resolve().parents[3]
STYLES = TESTS / "gpu" / "honest"
MODULE = (STYLES / "module_of_triton.torch.py").read_text()


@pytest.fixture(scope="session")
def cache(cache_with_builds: Path) -> Path:
    """Find and keep builds: building is tested elsewhere."""
    return cache_with_builds


@pytest.fixture
def centred() -> Task:
    return load_task(TESTS / "gpu" / "operators", "centred", "torch-to-torch", CPU)


@pytest.mark.slow
@pytest.mark.usefixtures("every_dtype")
@pytest.mark.parametrize(
    ("language", "dtypes"),
    # The interpreter truncates to bfloat16, twice here.
    [("torch", {"float32", "float16", "bfloat16"}), ("triton", {"float32", "float16"})],
)
def test_norm_rounded_before_its_weight_is_right_on_every_small_case(
    language: str, dtypes: set[str], cache: Path, fork_server: ForkServer
) -> None:
    task = load_task(TESTS.parent / "tasks", "rms_norm", f"torch-to-{language}", CPU)
    source = (STYLES / f"rounded_before_the_weight.{language}.py").read_text()
    small = [case for case in task.checked_cases(1 << 14) if case.dtype in dtypes]
    assert {case.dtype for case in small} == dtypes
    candidate = build(task, language, {task.target_file: source}, cache)
    with MeasurementSession(task, fork_server, baselines(task, cache), cache) as session:
        session.set_candidate(candidate, detect.device_for(CPU, cache))
        for case in small:
            assert session.check(case, thorough=language == "torch") <= 1.0


@pytest.mark.slow
@pytest.mark.usefixtures("in_a_hurry", "shared_fork_server")
def test_module_of_triton_passes_interpreted_and_is_not_timed(centred: Task, cache: Path) -> None:
    files = {centred.target_file: MODULE}
    report = evaluate(Request(centred, files, cache, scope="round"))
    gates = {result.gate: result for result in report.gates}
    assert report.verdict is Verdict.PASSED, report.message
    assert gates[GateName.CORRECTNESS].passed > 0
    assert gates[GateName.PERFORMANCE].verdict is Verdict.SKIPPED
    assert "interpreter" in gates[GateName.PERFORMANCE].message


HARMLESS = """\
\ufeff#!POPCORN leaderboard centred
import os
import sys, time, subprocess
import warnings
from pathlib import Path
from task import input_t, output_t

import numpy as np

warnings.filterwarnings("ignore")

"""
SELF_TEST = """

def shown(data: input_t) -> output_t:
    return data


if __name__ == "__main__":
    import random
    open("/tmp/results", "w").write(str(time.time() + random.random()))
    torch.save(ModelNew(2, 3, 1e-6), sys.argv[1])
    subprocess.run(["true"])
"""


@pytest.mark.slow
@pytest.mark.usefixtures("in_a_hurry", "shared_fork_server")
def test_harmless_imports_and_a_self_test_pass(centred: Task, cache: Path) -> None:
    source = HARMLESS + MODULE + SELF_TEST
    report = evaluate(Request(centred, {centred.target_file: source}, cache, scope="round"))
    assert report.verdict is Verdict.PASSED, report.message


@pytest.mark.slow
@pytest.mark.usefixtures("in_a_hurry", "shared_fork_server")
def test_wrong_module_of_triton_fails(centred: Task, cache: Path) -> None:
    wrong = MODULE.replace("tl.sum(values, 0) / cols", "tl.sum(values, 0) / BLOCK")
    report = evaluate(Request(centred, {centred.target_file: wrong}, cache, scope="round"))
    assert report.verdict is Verdict.FAILED and report.reason == "WRONG_VALUES"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["persistent_by_occupancy.triton.py", "rounded_before_the_weight.triton.py"]
)
def test_style_of_triton_is_compiled_ahead_without_a_gpu(name: str, cache: Path) -> None:
    outputs = Submission.read(STYLES / name).build(cache).outputs
    assert outputs and all(output.ok for output in outputs)
    assert any(output.resources for output in outputs)


def test_module_of_triton_may_start_a_compiler_on_a_gpu_only(centred: Task) -> None:
    torch, files = languages()["torch"], {centred.target_file: MODULE}
    assert torch.compiles(files, "gpu") and not torch.compiles(files, CPU)
    assert "interpreter" in torch.untimed(files, CPU) and not torch.untimed(files, "gpu")
    plain = {centred.target_file: "def centred(x, scale):\n    return x\n"}
    assert not torch.compiles(plain, "gpu") and not torch.untimed(plain, CPU)
    assert "triton" in torch.key(files, centred) and "triton" not in torch.key(plain, centred)
    for kind in (CPU, "gpu"):
        torch.check(files, dataclasses.replace(centred, kind=kind))


def test_module_of_triton_beside_native_code_is_unsupported(centred: Task) -> None:
    both = f"{MODULE}\nfrom torch.utils.cpp_extension import load_inline\n"
    for kind in (CPU, "gpu"):
        with pytest.raises(Unsupported, match="Triton compiles when it runs"):
            languages()["torch"].check(
                {centred.target_file: both}, dataclasses.replace(centred, kind=kind)
            )


def test_module_on_a_track_to_triton_names_the_track_that_judges_it() -> None:
    task = load_task(TESTS.parent / "tasks", "rms_norm", "torch-to-triton", CPU)
    assert task.cases(Split.SEEN)
    message = r"torch-to-torch, Triton included; here define `rms_norm`"
    with pytest.raises(SubmissionError, match=message) as caught:
        languages()["triton"].check({task.target_file: MODULE}, task)
    assert caught.value.reason is Reason.MISSING_ENTRY
