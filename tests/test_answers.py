"""Triton answers of the benchmark: they keep the rules, and some are judged by the interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.answers import Request, digest, is_known, parser, requests, triton_answers
from evaluation import JUDGE_VERSION
from evaluation.bench.process.fork_server import ForkServer
from evaluation.code.languages import languages
from evaluation.device_kind import CPU, GPU
from evaluation.judge.request import Request as Submission
from evaluation.kinds.kernel.judge import evaluate
from evaluation.kinds.kernel.load import load_operator
from evaluation.tasks.spec import find_operators, folder_of, has_mutants
from evaluation.types import Verdict

TASKS = Path(__file__).parents[1] / "tasks"
NATIVE = sorted(triton_answers("native", TASKS))


def request(operator: str, answer: str = "triton", kind: str = CPU) -> Request:
    return Request("native", str(TASKS), operator, answer, kind, "round")


@pytest.mark.parametrize("operator", NATIVE)
def test_triton_answer_passes_static_analysis(operator: str) -> None:
    task = request(operator).task()

    languages()["triton"].check({task.target_file: request(operator).source(task)}, task)


SOLVED = [
    name
    for name in find_operators(TASKS)
    if not has_mutants(folder_of(TASKS, name))
    and any(folder_of(TASKS, name).glob("honest/*.triton.py"))
]
"""Operators whose honest sources are written to be fast, not to test the judge."""


@pytest.mark.parametrize("operator", SOLVED)
def test_solutions_are_chosen_by_name_and_pass_static_analysis(operator: str) -> None:
    options = parser().parse_args([f"native/{operator}", "--answers", "solutions"])

    (chosen,) = requests(options)

    task = chosen.task()
    assert task.track.slug == "torch-to-triton"
    assert chosen.source(task).startswith("# honest: ")
    languages()["triton"].check({task.target_file: chosen.source(task)}, task)


def test_triton_answers_cover_every_category() -> None:
    operators = [name for name in find_operators(TASKS) if folder_of(TASKS, name).parent != TASKS]
    categories = {folder_of(TASKS, name).parent.name for name in operators}

    covered = {load_operator(folder_of(TASKS, name)).category for name in NATIVE}

    assert covered == categories
    assert len(NATIVE) >= 40


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    """Fork server of all verdicts here, which imports Triton once."""
    with ForkServer() as shared:
        yield shared


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the cache of all verdicts here: the first one measures this machine."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["mish", "l2_normalize", "avg_pool2d", "addmm", "cumsum"])
def test_triton_answer_of_each_kind_passes(
    operator: str, cache: Path, fork_server: ForkServer
) -> None:
    task = request(operator).task()
    files = {task.target_file: request(operator).source(task)}

    submission = Submission(task, files, cache, scope="round")
    report = evaluate(submission, fork_server=fork_server)

    assert report.verdict is Verdict.PASSED, report.message


@pytest.mark.parametrize("kind", [CPU, GPU])
def test_compiled_answer_fills_the_outputs_and_compiles_on_a_gpu(kind: str) -> None:
    task = request("adamw", "compile", kind).task()

    source = request("adamw", "compile", kind).source(task)

    languages()["torch"].check({task.target_file: source}, task)
    assert ("torch.compile" in source) is (kind == GPU)
    assert not languages()["torch"].returns({task.target_file: source}, task.operator)


def test_known_verdict_is_kept_until_it_is_asked_for_again() -> None:
    wanted = request("silu")
    task = wanted.task()
    chosen = parser().parse_args(["native/silu", "--device", "cpu", "--answers", "triton"])

    assert list(requests(chosen)) == [wanted]
    for verdict, again, known in (
        ("passed", False, True),
        ("passed", True, True),
        ("failed", False, True),
        ("failed", True, False),
        ("broken", False, False),
    ):
        result = {
            "hash": task.hash,
            "source": digest(wanted.source(task)),
            "scope": "round",
            "judge": JUDGE_VERSION,
            "verdict": verdict,
        }
        assert is_known({wanted.key: result}, wanted, again) is known
    assert not is_known({wanted.key: {**result, "verdict": "passed", "hash": ""}}, wanted)
