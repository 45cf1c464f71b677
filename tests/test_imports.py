"""Results of imports: the document has the committed table, and a run can be continued."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import import_workers, imports
from evaluation import JUDGE_VERSION
from evaluation.importers.outcome import FIRST_CLASS, REFUSED
from evaluation.importers.suites import suites
from tests.evaluation.importers.suite_checkout import LICENCE, SCALED, commit, path_of

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "benchmarks/results/imports.json"
RESULTS = json.loads(FILE.read_text())
ROW = re.compile(
    r"^\| ([\w -]+?) \| `(\w{7})` \| (\d+) \| (\d+) \| (\d+) \| (\d+) of (\d+) \|$", re.M
)


def groups(suite: str) -> dict[str, list[dict]]:
    """Return the problems of a suite, those of KernelBench by level."""
    found: dict[str, list[dict]] = {}
    for path, problem in RESULTS["suites"][suite]["problems"].items():
        level = re.fullmatch(r"KernelBench/level(\d)/.*", path)
        found.setdefault(f" level {level[1]}" if level else "", []).append(problem)
    return found


def test_table_of_the_document_is_that_of_the_results() -> None:
    titles = {slug: suite.title for slug, suite in suites().items()}
    expected = []
    for suite, table in RESULTS["suites"].items():
        results = RESULTS["tasks"].get(suite, {})
        for words, problems in groups(suite).items():
            kinds = Counter(problem["outcome"] for problem in problems)
            checked = [results[p["task"]] for p in problems if p["task"] in results]
            admitted = sum(result["admitted"] for result in checked)
            numbers = (len(problems), kinds[FIRST_CLASS], kinds[REFUSED], admitted, len(checked))
            expected.append((titles[suite] + words, table["commit"][:7], *map(str, numbers)))
    assert ROW.findall((ROOT / "docs/importing.md").read_text()) == expected


def test_every_refused_problem_has_a_reason() -> None:
    for table in RESULTS["suites"].values():
        assert len(table["commit"]) == 40
        for problem in table["problems"].values():
            assert bool(problem.get("reason")) == (problem["outcome"] == REFUSED), problem


@pytest.mark.timeout(300)
def test_continued_run_checks_no_task_twice(tmp_path, capsys) -> None:
    checked = []

    def admit(task, cache, fork_server) -> SimpleNamespace:
        checked.append(task.slug)
        return SimpleNamespace(admitted=True, problems=(), only_unsteady=False)

    def main(arguments) -> int:
        check = partial(import_workers.checked, admit=admit)
        return imports.main(arguments, check, lambda cache, kinds: (about,))

    commit(tmp_path / "suite", {"LICENSE": LICENCE, path_of(1, "Scaled"): SCALED})
    about = SimpleNamespace(fingerprint={"uuid": "1", "model": "a CPU"})
    folders = {"checkout": "suite", "into": "imported", "cache": "cache", "output": "results.json"}
    arguments = ["--suite", "kernelbench"]
    for name, folder in folders.items():
        arguments += [f"--{name}", str(tmp_path / folder)]
    assert main([*arguments, "--within", "0"]) == 1
    without = arguments[:2] + arguments[4:]  # the checkout
    assert main(arguments) == main(arguments) == main(without) == 0
    assert checked == ["kb1_1_scaled/torch-to-torch"]
    data = json.loads((tmp_path / "results.json").read_text())
    assert data["tasks"]["kernelbench"]["kb1_1_scaled"]["judge"] == JUDGE_VERSION
    assert data["suites"]["kernelbench"]["counts"] == {"problems": 1, FIRST_CLASS: 1}
    assert data["device"] == {"model": "a CPU"}
    assert "1 of 1 checked tasks are admitted, of 1 chosen" in capsys.readouterr().out
