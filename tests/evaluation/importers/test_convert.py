"""Tests of conversion in the sandbox: code that hangs, forks, or reaches for the network."""

from __future__ import annotations

import socket

import pytest

from evaluation.importers import convert
from evaluation.importers.convert import Converted, Refused
from evaluation.importers.files import Files
from evaluation.importers.suites import Problem, suites
from tests.evaluation.importers.suite_checkout import SCALED, problem

pytestmark = pytest.mark.timeout(300)
KERNELBENCH = suites()["kernelbench"]
GOOD = (Problem("good", "good.py", "Good", 1, "Math"), Files(SCALED))
FORKS = """import os, time
    for _ in range(12):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    time.sleep(60)"""


def bad(name: str, before: str) -> tuple[Problem, Files]:
    files = Files(problem("x * self.weight", before=before))
    return Problem(name, f"{name}.py", name, 1, "Math"), files


def converted(*problems: tuple[Problem, Files], seconds: int = 100) -> dict[str, object]:
    """Convert without the rules of sources, which refuse most of these first."""
    return dict(convert.run(problems, KERNELBENCH, seconds))


@pytest.fixture(scope="module")
def ended() -> dict[str, object]:
    """Return what two problems without an end came to, in one sandbox."""
    sleeps = bad("sleeps", "import time; time.sleep(600)")
    return converted(bad("hangs", "while True: pass"), sleeps, seconds=1)


def test_hanging_code_is_ended(ended):
    assert str(ended["hangs"]) == "its code took longer than 1 s of processor time"
    assert not ended["hangs"].final


def test_idle_code_is_ended(ended):
    assert str(ended["sleeps"]) == "its code took longer than 5 s"


def test_forking_code_is_ended_with_its_sandbox():
    found = converted(bad("forks", FORKS))
    assert "processes at a time; the limit is 6" in str(found["forks"])


def test_network_is_out_of_reach():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach = f"import socket; socket.create_connection(('127.0.0.1', {port}))"
        found = converted(bad("reaches", reach), GOOD)
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.accept()
    assert isinstance(found["reaches"], Refused) and "Error" in str(found["reaches"])
    assert isinstance(found["good"], Converted)


def test_code_that_ends_its_parent_refuses_itself_alone(monkeypatch):
    monkeypatch.setattr(convert, "check_source", lambda name, source: None)
    ends = "import os, signal, time; os.kill(os.getppid(), signal.SIGKILL); time.sleep(60)"
    kills = bad("kills", ends)  # and waits, so that it writes no result of its own
    first, second = convert.convert_all([kills, GOOD], KERNELBENCH, 100)
    assert isinstance(first, Refused) and "ended the process" in str(first)
    assert isinstance(second, Converted)


def test_problem_that_raises_for_normal_inputs_draws_what_its_suite_draws():
    result = (
        'nn.functional.binary_cross_entropy(x, torch.sigmoid(x * self.weight), reduction="none")'
    )
    entropy = (Problem("entropy", "entropy.py", "Entropy", 1, "Loss"), Files(problem(result)))
    found = converted(entropy)["entropy"]
    assert isinstance(found, Converted), str(found)
    assert list(found.flags) == ["inputs from [0, 1) only: normal inputs have no finite result"]


def test_problem_that_rounds_as_much_as_bfloat16_is_imported_with_a_flag():
    problems = (Problem("far", "far.py", "Far", 1, "Math"), Files(problem("x * 1e-3 + 100")))
    found = converted(problems)["far"]
    assert isinstance(found, Converted), str(found)
    assert found.flags[-1].startswith("inputs in bfloat16 are right, too")
    assert "error_of_bfloat16 = 0." in found.files["fitted.toml"]


def test_deep_result_refuses_its_problem_alone():
    code = """import os, pathlib
    def deep():
        (pathlib.Path.cwd() / "deep" / "result.json").write_text("[" * 200_000)
        os._exit(0)
    deep()"""
    found = converted(bad("deep", code), GOOD)
    assert isinstance(found["good"], Converted)
    assert not isinstance(found.get("deep"), Converted)
