"""Each layout yields its generations, with claim and address."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

from evaluation.errors import RequestError
from evaluation.importers.generations import collection
from evaluation.importers.generations.collection import (
    NO_DESCRIPTION,
    Collection,
    descriptions,
    open_folder,
    read_description,
)
from evaluation.importers.generations.generation import Claim, Generation
from evaluation.importers.generations.part import Part
from evaluation.importers.generations.tasks import Suites
from evaluation.importers.generations.tree import FolderTree, GitTree, has_commit

SOURCE = "import torch\nclass ModelNew(torch.nn.Module):\n    pass\n"


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def read(folder: Path, layout: str, **options: object) -> list[Generation]:
    part = Part(layout, "kernelbench", "M", "a GPU", "eager", options)
    found = Collection("c", "C", "https://example.org/c", "", "MIT", (part,))
    return list(found.generations(FolderTree(folder)))


def test_runs_have_the_results_beside_them(tmp_path: Path) -> None:
    results = {
        "1": [
            {"sample_id": 0, "correctness": True, "runtime": 2.0, "metadata": {"hardware": "A"}},
            {"sample_id": 1, "correctness": False, "runtime": -1.0, "metadata": {}},
        ]
    }
    log = (
        "Starting Batch Eval with config: EvalConfig({'level': 1, 'x': 2})\n"
        "[Eval Result] Problem ID: 1, Sample ID: 0\n"
        "compiled=True runtime=2.0 ref_runtime=5.0 ref_runtime_stats={}\n"
    )
    write(
        tmp_path,
        {
            "runs/a/level_1_problem_1_sample_1_kernel.py": SOURCE + "# 1",
            "runs/a/level_1_problem_1_sample_0_kernel.py": SOURCE,
            "runs/a/level_1_problem_10_sample_0_kernel.py": SOURCE + "# 10",
            "runs/a/eval_results.json": json.dumps(results),
            "a.log": log,
        },
    )

    first, second, third = read(tmp_path, "runs", paths=["runs/*/*_kernel.py"], log="a.log")

    assert (first.problem, first.sample, first.text) == (1, 0, SOURCE)
    assert first.claim == Claim(True, 2.5, "A", "eager")
    assert (second.sample, second.claim) == (1, Claim(False, None, "a GPU", "eager"))
    assert (third.problem, third.claim.right) == (10, None)


@pytest.mark.parametrize(
    "results",
    [
        '{"1": [',
        "",
        "7",
        "[1]",
        '{"one": [{}]}',
        '{"1": [3]}',
        '{"1": [{"metadata": "A"}]}',
        "\0",
        '{"1": [{"ref_runtime": "fast"}]}',
    ],
)
def test_results_that_cannot_be_read_are_named_with_a_remedy(results: str, tmp_path: Path) -> None:
    name = "a/level_1_problem_1_sample_0_kernel.py"
    write(tmp_path, {name: SOURCE, "a/eval_results.json": results})
    with pytest.raises(RequestError, match=r"^c/a/eval_results\.json: .*without their claims$"):
        read(tmp_path, "runs", paths=["*_kernel.py"])


def test_source_without_a_level_is_left_out_where_no_description_names_one(tmp_path: Path) -> None:
    names = ("level_1_problem_set/problem_3_kernel.py", "r/level_12_problem_3_kernel.py")
    write(tmp_path, dict.fromkeys(names, SOURCE))
    (found,) = read(tmp_path, **NO_DESCRIPTION)
    (tmp_path / "imported" / "kernelbench").mkdir(parents=True)
    suites = Suites([tmp_path / "imported"])
    assert suites.why_no_task(found) == "level 12 is not imported"


def test_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    tree = FolderTree(tmp_path / "gone")
    with pytest.raises(RequestError, match="gone: No such file or directory; make it readable"):
        assert tree.paths


def test_runs_of_epochs_and_of_one_level_are_read(tmp_path: Path) -> None:
    results = [
        {"evaluation_id": "level_2_problem_3_epoch_0_sample_5", "correctness": True, "runtime": 1}
    ]
    detailed = {"results": [{"problem_id": 7, "eval_result": {"correctness": False}}]}
    write(
        tmp_path,
        {
            "e/level_2_problem_3_epoch_0_sample_5_kernel.py": SOURCE,
            "e/eval_results.json": json.dumps(results),
            "f/problem_7_kernel.py": SOURCE,
            "f/detailed_results.json": json.dumps(detailed),
        },
    )

    (epoch,) = read(tmp_path, "runs", paths=["e/*_kernel.py"])
    (single,) = read(tmp_path, "runs", paths=["f/*_kernel.py"], level=3)

    assert (epoch.level, epoch.problem, epoch.sample, epoch.claim.right) == (2, 3, 5, True)
    assert (single.level, single.problem, single.claim.right) == (3, 7, False)


@pytest.mark.parametrize(
    ("result", "speedup"),
    [
        ({"correctness": True, "runtime": 2.0, "ref_runtime": 6.0}, 3.0),
        ({"correctness": True, "runtime": 2.0, "ref_runtime": -1.0}, None),
        ({"correctness": True, "runtime": -1.0, "ref_runtime": 6.0}, None),
        ({"correctness": True, "runtime": 2.0, "ref_runtime": math.inf}, None),
        ({"correctness": True, "runtime": 2.0, "ref_runtime": math.nan}, None),
        ({"correctness": True, "runtime": 2.0, "ref_runtime": None}, None),
        ({"correctness": True, "runtime": 2.0}, None),
        ({"correctness": False, "runtime": 2.0, "ref_runtime": 6.0}, None),
        ({"runtime": 2.0, "ref_runtime": 6.0}, None),
    ],
)
def test_result_with_both_times_of_a_right_kernel_claims_their_ratio(
    result: dict[str, Any], speedup: float | None, tmp_path: Path
) -> None:
    results = json.dumps({"1": [{"sample_id": 0, **result}]})
    name = "a/level_1_problem_1_sample_0_kernel.py"
    write(tmp_path, {name: SOURCE, "a/eval_results.json": results})
    (found,) = read(tmp_path, **NO_DESCRIPTION)
    assert found.claim.speedup == speedup


def test_reference_time_of_a_result_comes_before_that_of_the_log(tmp_path: Path) -> None:
    times = {"correctness": True, "runtime": 2.0}
    samples = [{"sample_id": 0, "ref_runtime": 6.0, **times}, {"sample_id": 1, **times}]
    log = (
        "Starting Batch Eval with config: EvalConfig({'level': 1})\n"
        "[Eval Result] Problem ID: 1, Sample ID: 0\nruntime=2.0 ref_runtime=5.0\n"
    )
    names = [f"a/level_1_problem_1_sample_{number}_kernel.py" for number in (0, 1)]
    results = {"a/eval_results.json": json.dumps({"1": samples}), "a.log": log}
    write(tmp_path, {**dict.fromkeys(names, SOURCE), **results})
    claims = [each.claim for each in read(tmp_path, "runs", paths=["a/*_kernel.py"], log="a.log")]
    assert [claim.speedup for claim in claims] == [3.0, 2.5]


def test_rows_without_a_source_are_left_out(tmp_path: Path) -> None:
    rows = [
        {"level_id": 1, "task_id": 1, "code": SOURCE, "score": 2.5},
        {"level_id": 1, "task_id": 2, "code": None, "score": None},
        {"level_id": 1, "task_id": 3, "code": "None", "score": None},
        {"level_id": 1, "task_id": 1, "code": SOURCE + "#", "score": None},
    ]
    write(
        tmp_path,
        {"a.json": "\n".join(map(json.dumps, rows)), "b.json": json.dumps(rows)},
    )

    lines = read(tmp_path, "lines", path="a.json", source="code", speedup="score")
    listed = read(tmp_path, "lines", path="b.json", source="code", speedup="score")

    assert [(each.problem, each.sample) for each in lines] == [(1, 0), (1, 1)]
    assert [each.source for each in lines] == ["a.json#L1", "a.json#L4"]
    assert lines[0].claim == Claim(True, 2.5, "a GPU", "eager")
    assert [each.text for each in listed] == [each.text for each in lines]


def test_first_line_of_a_problem_names_agent_and_speedup(tmp_path: Path) -> None:
    first = "# level 1 index 19 agent name: KernelAgent o1 speedup: 1.05x\n"
    write(tmp_path, {"s/level_1/task_19.py": first + SOURCE, "s/level_1/task_2.py": SOURCE})

    two, nineteen = read(tmp_path, "problems", paths="s/level_*/task_*.py")

    assert (two.model, two.claim.speedup) == ("M", None)
    assert (nineteen.model, nineteen.claim) == (
        "KernelAgent o1",
        Claim(True, 1.05, "a GPU", "eager"),
    )


def test_leaderboard_names_files_and_models(tmp_path: Path) -> None:
    data = {
        "Level 2: 5_Conv": [
            {"display_name": "gpt-o1", "torch_speedup": 2, "file": "ab"},
            {"display_name": "gpt-o1", "torch_speedup": 1, "file": "cd"},
            {"display_name": "other", "torch_speedup": 1, "file": "gone"},
        ]
    }
    write(tmp_path, {"d.json": json.dumps(data), "s/ab.py": SOURCE, "s/cd.py": SOURCE + "#"})

    found = read(
        tmp_path, "leaderboard", path="d.json", solutions="s", models={"gpt-o1": "OpenAI o1"}
    )

    assert [(each.model, each.level, each.problem, each.sample) for each in found] == [
        ("OpenAI o1", 2, 5, 0),
        ("OpenAI o1", 2, 5, 1),
    ]


@pytest.mark.parametrize(
    ("source", "language"),
    [
        (SOURCE, "torch"),
        (SOURCE + "import triton\n", "triton"),
        (SOURCE + "from torch.utils.cpp_extension import load_inline\n", "cuda"),
        (SOURCE + "import tilelang\n", "other"),
        ("Here is the kernel:", "other"),
    ],
)
def test_language_follows_from_the_source(source: str, language: str) -> None:
    assert Generation("c", "m", "s", 1, 1, 0, "a", source).language == language


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a bare repository with one commit: a source, and a link to it."""
    work, bare = tmp_path / "work", tmp_path / "bare"
    write(work, {"generated/problem_1.py": SOURCE})
    (work / "runs/a").mkdir(parents=True)
    (work / "runs/a/level_1_problem_1_sample_0_kernel.py").symlink_to(
        "../../generated/problem_1.py"
    )
    (work / "runs/a/level_1_problem_2_sample_0_kernel.py").symlink_to("/etc/passwd")
    name = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for command in (
        ("init", "-q"),
        ("add", "."),
        (*name, "commit", "-q", "-m", "a"),
        ("clone", "-q", "--bare", ".", str(bare)),
    ):
        subprocess.run(("git", "-C", str(work), *command), check=True, capture_output=True)
    return bare


def test_commit_is_read_without_a_work_tree_and_links_lead_into_it(repository: Path) -> None:
    shown = ("git", "-C", str(repository), "rev-parse", "HEAD")
    commit = subprocess.run(shown, check=True, capture_output=True, text=True).stdout.strip()
    tree = GitTree(repository, commit, "https://example.org/c")
    link = "runs/a/level_1_problem_1_sample_0_kernel.py"

    assert has_commit(repository, commit) and not has_commit(repository, "0" * 40)
    assert tree.paths == ["generated/problem_1.py", link]
    assert tree.read([link]) == {link: SOURCE}
    assert tree.address(link) == f"https://example.org/c/blob/{commit}/generated/problem_1.py"
    with pytest.raises(RequestError, match="is not in"):
        tree.read(["gone.py"])


def test_folder_with_the_commit_of_a_description_is_that_collection(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown = ("git", "-C", str(repository), "rev-parse", "HEAD")
    commit = subprocess.run(shown, check=True, capture_output=True, text=True).stdout.strip()
    part = Part("runs", "kernelbench", "M", options={"paths": ["runs/*/*_kernel.py"]})
    known = Collection("known", "Known", "https://example.org/c", commit, "MIT", (part,))
    monkeypatch.setattr(collection, "descriptions", lambda: (known,))

    found, tree = open_folder(repository, "kernelbench", "")
    unknown, _ = open_folder(tmp_path / "work", "kernelbench-v0", "Mine")

    assert found is known and [each.problem for each in found.generations(tree)] == [1]
    assert unknown.slug == "known"  # a checkout has the commit too
    write(tmp_path / "other", {"level_1_problem_3_sample_0_kernel.py": SOURCE})
    other, files = open_folder(tmp_path / "other", "kernelbench-v0", "")
    (mine,) = other.generations(files)
    assert (other.slug, mine.model, mine.suite, mine.problem) == (
        "other",
        "other",
        "kernelbench-v0",
        3,
    )


def test_descriptions_are_complete() -> None:
    known = descriptions()

    assert len(known) >= 8
    for each in known:
        assert each.title and each.address.startswith("https://") and len(each.commit) == 40
        assert each.licence and all(part.suite.startswith("kernelbench") for part in each.parts)
        assert all(part.layout in collection.known_layouts() for part in each.parts)


DESCRIPTION = """title = "C"
address = "https://example.org/c"
commit = "0123"
licence = "MIT"
suite = "kernelbench"

[[part]]
layout = "runs"
paths = ["*_kernel.py"]
"""


@pytest.mark.parametrize(
    ("line", "mended", "message"),
    [
        ('commit = "0123"', "", "the field `commit` is missing; add it"),
        ('title = "C"', "", "the field `title` is missing; add it"),
        ("[[part]]", "[other]", "the field `part` is missing; add it"),
        ("[[part]]", "[part]", "`part` is no list of tables; begin each by [[part]]"),
        ('layout = "runs"', "", "part 1: the field `layout` is missing; add it"),
        ('suite = "kernelbench"', "", "part 1: the field `suite` is missing; add it"),
        ('paths = ["*_kernel.py"]', "", "part 1: the field `paths` is missing; add it"),
        (
            'layout = "runs"',
            'layout = "rows"',
            "part 1: there is no layout 'rows'; there are leaderboard, lines, problems, runs",
        ),
    ],
)
def test_description_with_a_fault_is_refused_with_its_file_and_the_field(
    line: str, mended: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "c.toml"
    path.write_text(DESCRIPTION)
    assert read_description(path).commit == "0123"
    path.write_text(DESCRIPTION.replace(line, mended))
    with pytest.raises(RequestError) as refused:
        read_description(path)
    assert str(refused.value) == f"{path}: {message}"


def test_description_that_is_no_toml_is_refused_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("title =")
    with pytest.raises(RequestError, match=r"c\.toml: .*; write it as TOML$"):
        read_description(path)
