"""`python -m evaluation generations` counts, judges, packs, and continues after it was killed."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evaluation.__main__ import main
from evaluation.importers.checkout import Checkout
from evaluation.importers.generations import binding, campaign, packed, records
from evaluation.importers.importer import import_suite
from evaluation.importers.suites import suites
from tests.evaluation.importers.suite_checkout import LICENCE, commit, path_of, problem
from tests.waiting import until

ROOT = Path(__file__).parents[4]
RIGHT = problem("torch.relu(x) * self.weight * self.factor").replace("Model", "ModelNew")
WRONG = problem("x * self.weight * self.factor").replace("Model", "ModelNew")
ROUGH = RIGHT.replace("* self.factor", "* (self.factor * 1.00003)")
SOURCES = {
    (1, 0): RIGHT,
    (1, 1): WRONG,
    (1, 2): RIGHT,
    (1, 3): "Here is the kernel:",
    (1, 4): RIGHT.replace("factor):", "factor, more):"),
    (1, 5): f"{RIGHT}\ntorch.jit.script(torch.relu)\n",
    (1, 6): ROUGH,
    (2, 0): RIGHT,
}
"""Sources by problem and sample; there is no problem 2."""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    source = problem("torch.relu(x) * self.weight * self.factor")
    commit(folder / "checkout", {"LICENSE": LICENCE, path_of(1, "Rectified"): source})
    checkout = Checkout.open(folder / "checkout", "https://example.org/suite")
    import_suite(suites()["kernelbench"], checkout, folder / "imported")
    return folder / "imported"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = tmp_path / "mine" / "run"
    run.mkdir(parents=True)
    for (number, sample), text in SOURCES.items():
        name = f"level_1_problem_{number}_sample_{sample}_kernel.py"
        (run / name).write_text(text)
    return tmp_path / "mine"


def arguments(folder: Path, imported: Path, output: Path, *more: str) -> list[str]:
    paths = (str(folder), "--imported", str(imported), "--export", str(output))
    return ["generations", *paths, "--kind", "cpu", "--scope", "round", *more]


def started(command: Sequence[str], cache: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "ARENA_MEASURE_BUSY": "1", "ARENA_CACHE": str(cache)}
    return subprocess.Popen(
        (sys.executable, "-m", "evaluation", *command), cwd=ROOT, env=environment
    )


def test_dry_run_counts_what_can_be_judged(
    imported: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(arguments(folder, imported, tmp_path / "none", "--dry-run", "--json"))

    counts = json.loads(capsys.readouterr().out)
    assert code == 0 and (counts["generations"], counts["judgeable"]) == (8, 4)
    assert counts["reasons"] == {
        "the problem was not imported": 1,
        "not Python": 1,
        "__init__ takes other arguments": 1,
        "UNSUPPORTED": 1,
    }
    assert (counts["different"]["sources"], counts["different"]["judgeable"]) == (7, 3)
    assert counts["different"]["reasons"] == counts["reasons"]
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("least", "most", "text"), [(2, 2, "2"), (2, 3, "2 to 3"), (1, math.inf, "1 or more")]
)
def test_numbers_of_arguments_are_said_once(least: int, most: float, text: str) -> None:
    assert str(binding.Arity(least, most)) == text


def test_nothing_chosen_and_no_suites_are_refused(
    imported: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "none"

    assert main(arguments(folder, imported, output, "--claims")) == 2
    assert "generations is chosen; see --model" in capsys.readouterr().err
    other = tmp_path / "other"
    other.mkdir()
    (other / "kernel.py").write_text("x = 1")
    assert main(arguments(other, imported, output)) == 2
    assert "sources are named level_1_problem_19_sample_0_kernel.py" in capsys.readouterr().err
    assert main(arguments(folder, tmp_path / "gone", output)) == 2
    assert "no such folder" in capsys.readouterr().err
    assert main(arguments(folder, other, output, "--dry-run")) == 2
    assert f"import kernelbench CHECKOUT --into {other}" in capsys.readouterr().err


def test_claims_choose_by_both_times_of_the_results(
    imported: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = [
        {"sample_id": number, "correctness": True, "runtime": 2.0, "ref_runtime": reference}
        for number, reference in enumerate((4.0, 3.0, -1.0))
    ]
    (folder / "run" / "eval_results.json").write_text(json.dumps({"1": samples}))
    words = ("--claims", "--dry-run", "--json")

    assert main(arguments(folder, imported, tmp_path / "none", *words)) == 0
    assert json.loads(capsys.readouterr().out)["generations"] == 2


def test_help_has_the_defaults_of_the_file_and_of_the_limit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["generations", "-h"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "default: generations.jsonl in the current folder" in shown
    assert "time of one verdict; default: 60" in shown


@pytest.mark.slow
def test_campaign_that_was_killed_continues_with_its_records(
    imported: Path, folder: Path, tmp_path: Path
) -> None:
    output, cache = tmp_path / "records.jsonl", tmp_path / "cache"
    command = arguments(folder, imported, output, "--limit", "600")

    killed = started(command, cache)
    until(lambda: judged(output) >= 1, "the first verdict", 280)
    killed.kill()
    killed.wait()
    kept = records.read(output)[1]
    continued = started(command, cache)
    assert continued.wait() == 0

    head, found = records.read(output)
    assert found[: len(kept)] == kept
    by_place = {(each["problem"], each["sample"]): each["judged"] for each in found}
    assert len(found) == len(by_place) == len(SOURCES)
    assert {place: each["status"] for place, each in by_place.items()} == {
        (1, 0): "passed",
        (1, 1): "wrong",
        (1, 2): "passed",
        (1, 3): "failed",
        (1, 4): "not_judged",
        (1, 5): "unsupported",
        (1, 6): "suite_right",
        (2, 0): "not_judged",
    }
    assert by_place[1, 4]["reason"] == campaign.OTHER_ARGUMENTS
    assert by_place[1, 0] == by_place[1, 2] and by_place[1, 0]["speedup"] > 0
    assert by_place[1, 0]["precision_rule"] == "tf32"
    assert by_place[1, 0]["right_by"] == ["suite", "tf32", "ieee"]
    assert (by_place[1, 1]["right_by"], by_place[1, 6]["right_by"]) == ([], ["suite"])
    assert head["ended_at"] and head["collections"]["mine"]["title"] == "mine"
    told = {str(each["judged"]["message"]) for each in found if each["task"]}
    assert [text for text in told if "torch" in text] == [by_place[1, 5]["message"]]


@pytest.mark.parametrize(("text", "expected"), [("a = 1", True), ("", False), ("It is:", False)])
def test_text_that_is_no_python_needs_no_compiler(text: str, expected: bool) -> None:
    assert binding.is_python(text) is expected


def judged(path: Path) -> int:
    """Return the number of verdicts in a file of records that is being written."""
    return sum(each["judged"]["seconds"] is not None for each in records.read(path)[1])


def test_packed_folder_has_sources_and_tasks(
    imported: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "packed"
    output = tmp_path / "none"
    (target / packed.IMPORTED / "old").mkdir(parents=True)
    (target / packed.RECORDS).write_text("kept")
    (target / packed.GENERATIONS).write_text("older")

    assert main(arguments(folder, imported, output, "--pack", str(target))) == 0

    shown = capsys.readouterr().out
    command = shown.split("\n\n", 1)[1]
    assert "generations packed --kind gpu" in command and len(command) < 2000
    collections, generations = packed.read(target)
    assert collections["mine"]["title"] == "mine"
    assert {(each.problem, each.sample): each.text for each in generations} == SOURCES
    assert (target / packed.RECORDS).read_text() == "kept"
    assert not (target / packed.IMPORTED / "old").exists()
    counts = dry_run(target, capsys)
    assert (counts["generations"], counts["judgeable"]) == (8, 4)


def test_pack_that_would_remove_tasks_is_refused(
    imported: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(imported, tmp_path / "home" / packed.IMPORTED)
    pack, nothing = tmp_path / "pack", tmp_path / "none"
    assert main(arguments(folder, imported, nothing, "--pack", str(pack))) == 0

    assert main(arguments(folder, imported, nothing, "--pack", str(tmp_path / "home"))) == 2
    assert "would be removed; name a new folder" in capsys.readouterr().err
    assert main(["generations", str(pack), "--pack", str(pack)]) == 2
    assert "is read from; name a new folder" in capsys.readouterr().err
    for kept in (tmp_path / "home", pack):
        assert len(list((kept / packed.IMPORTED).glob("*/*/task.toml"))) == 1
    (tmp_path / "file").touch()
    assert main(arguments(folder, imported, nothing, "--pack", str(tmp_path / "file"))) == 2
    assert "file: File exists; name a new folder" in capsys.readouterr().err


@pytest.mark.parametrize("rule", ["claims = 3", "[[claims]]\ncount = 3", "[[samples]]\n", "= 1"])
def test_selection_of_another_form_is_named(
    rule: str, imported: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rule.toml").write_text(rule)
    words = ("--dry-run", "--selection", str(tmp_path / "rule.toml"))
    assert main(arguments(folder, imported, tmp_path / "none", *words)) == 2
    assert capsys.readouterr().err.startswith(f"evaluation: {tmp_path / 'rule.toml'}: ")


@pytest.mark.parametrize("content", [b"", b"{}\n", b"\xff\xfe"])
def test_damaged_pack_is_named(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / packed.GENERATIONS).write_bytes(content)
    assert main(["generations", str(tmp_path), "--dry-run"]) == 2
    assert capsys.readouterr().err.endswith("; pack it again\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--limit 0", "argument --limit: 0 is not a number of seconds above 0"),
        ("--limit nan", "argument --limit: nan is not a number of seconds above 0"),
        ("--within soon", "argument --within: soon is not a number of seconds above 0"),
        ("--claims -3", "argument --claims: -3 is not a whole number of 1 or more"),
        ("--claims 0", "argument --claims: 0 is not a whole number of 1 or more"),
        ("--claims 1.5", "argument --claims: 1.5 is not a whole number of 1 or more"),
    ],
)
def test_number_with_which_nothing_is_judged_is_refused(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["generations", "folder", *words.split()])
    assert capsys.readouterr().err.endswith(f"{message}\n")


def dry_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the counts of a packed folder, whose tasks are those beside it."""
    assert main(["generations", str(folder), "--kind", "cpu", "--dry-run", "--json"]) == 0
    counts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return counts


def test_process_that_judges_starts_its_fork_server_before_it_imports_pytorch() -> None:
    code = (
        "import sys, evaluation.importers.generations.judge_process; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
