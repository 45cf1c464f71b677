"""A hostile reference, whose folder was written by hand: its code runs inside the walls alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evaluation.bench.process.fork_server import ROOT, ForkServer
from evaluation.judge.request import Request
from evaluation.kinds.kernel.judge import evaluate
from evaluation.kinds.kernel.load import load_operator, load_task
from evaluation.sandbox.features import isolation_features
from evaluation.types import GateName, Reason, Verdict

SCALED = Path(__file__).parents[1] / "operators" / "scaled"
HOSTILE = """
from torch import os

MADE, HOME = {made!r}, {home!r}


def reached():
    \"\"\"Return how many of the things that are out of reach were reached.\"\"\"
    count = 0
    for attempt in (
        lambda: os.makedirs(MADE, exist_ok=True),
        lambda: os.listdir(HOME),
        lambda: os.open(HOME + "/secret_key", os.O_RDONLY),
        lambda: os.environ["SECRET_OF_THE_JUDGE"],
        lambda: os.open(f"/proc/{{os.getppid()}}/environ", os.O_RDONLY),
        lambda: os.open("/proc/{judge}/environ", os.O_RDONLY),
        lambda: os.fork() or os._exit(0),
    ):
        try:
            attempt()
        except Exception:
            continue
        count += 1
    return count


def reference(x, weight, shift):
    return x * weight + shift + reached()


def magnitude(x, weight, shift):
    return (x * weight).abs() + abs(shift) + reached()


def reduction(case):
    return 1 + reached()


def inputs(case, draw):
    return {{
        "x": draw.normal((case["rows"], case["cols"])) + reached(),
        "weight": draw.uniform((case["cols"],), 0.5, 1.5),
    }}


def cost(case):
    rows, cols = case["rows"], case["cols"]
    return (2 * rows * cols + cols) * 4 + reached(), 2 * rows * cols
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Return the folder of an operator whose reference reaches for what is the judge's."""
    home = tmp_path / "home"
    home.mkdir(0o700)
    (home / "secret_key").write_text("hidden")
    folder = tmp_path / "tasks" / "scaled"
    shutil.copytree(SCALED, folder)
    text = HOSTILE.format(made=str(folder / "made"), home=str(home), judge=os.getpid())
    (folder / "reference.py").write_text(text)
    return folder


def test_hostile_code_reaches_all_of_it_outside_the_walls(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_JUDGE", "hidden")
    operator = load_operator(hostile)
    text = (hostile / "reference.py").read_text().replace("lambda: os.fork()", "lambda: True")
    (hostile / "reference.py").write_text(text)
    assert operator.module().reduction(operator.cases[0]) >= 7
    assert (hostile / "made").is_dir()


@pytest.mark.serial
@pytest.mark.skipif(not isolation_features().any, reason="no isolation here")
def test_hostile_code_reaches_none_of_it_in_a_verdict(
    hostile: Path,
    tmp_path: Path,
    cache: Path,
    fork_server: ForkServer,
    in_a_hurry: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ARENA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SECRET_OF_THE_JUDGE", "hidden")
    task = load_task(hostile.parent, "scaled", "cpp-to-cpp")
    files = {task.target_file: task.operator.baseline("cpp")}
    report = evaluate(Request(task, files, cache), fork_server=fork_server)
    # Each value of the reference would be another one, had it reached anything.
    verdicts = {gate.gate: gate.verdict for gate in report.gates}
    assert verdicts[GateName.CORRECTNESS] is Verdict.PASSED, report
    assert not {Verdict.FAILED, Verdict.BROKEN} & set(verdicts.values()), report
    assert not (hostile / "made").exists()


@pytest.mark.serial
@pytest.mark.parametrize(
    ("body", "error"),
    [("import os\n    os._exit(3)", "exit code 3"), ("return x[None]", "must have the shape")],
)
def test_failing_code_breaks_the_verdict_and_blames_no_submission(
    body: str, error: str, hostile: Path, cache: Path, fork_server: ForkServer, in_a_hurry: None
) -> None:
    text = (SCALED / "reference.py").read_text()
    text += f"\n\ndef reference(x, **_):\n    {body}\n"
    (hostile / "reference.py").write_text(text)
    task = load_task(hostile.parent, "scaled", "cpp-to-cpp")
    files = {task.target_file: task.operator.baseline("cpp")}
    report = evaluate(Request(task, files, cache, scope="round"), fork_server=fork_server)
    assert (report.verdict, report.reason) == (Verdict.BROKEN, Reason.JUDGE_ERROR)
    assert report.message == "the code of the task failed, not the submission"
    assert error in str(report.gates[-1].private["error"])


@pytest.mark.skipif(not isolation_features().any, reason="no isolation here")
@pytest.mark.parametrize("command", ["admit", "fit"])
def test_hostile_code_reaches_none_of_it_in_checks_of_the_task(
    command: str, hostile: Path, tmp_path: Path, cache: Path
) -> None:
    environment = {
        **os.environ,
        "ARENA_HOME": str(tmp_path / "home"),
        "SECRET_OF_THE_JUDGE": "hidden",
    }
    name = "scaled/cpp-to-cpp" if command == "admit" else "scaled"
    argv = [sys.executable, "-m", "evaluation", command, name, "--tasks", str(hostile.parent)]
    argv += ["--cache", str(cache)] if command == "admit" else []
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert not (hostile / "made").exists()
    if command == "admit":
        assert "bytes of 4 cases fit the tensors" in done.stdout


def test_judge_itself_loads_no_code_of_a_task(hostile: Path) -> None:
    code = (
        "from pathlib import Path; from evaluation.kinds.kernel.load import load_operator;"
        f"load_operator(Path({str(hostile)!r})).module()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "Broken: the code of a task does not run in the judge's process" in done.stderr
    assert not (hostile / "made").exists()
