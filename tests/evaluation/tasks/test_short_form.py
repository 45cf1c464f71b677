"""Tests of operators in the short form: `task.toml`, `reference.py`, `fitted.toml`, a baseline."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
import torch

from evaluation.errors import TaskError
from evaluation.kinds.kernel.load import load_operator, load_task, load_tasks
from evaluation.kinds.kernel.workspace_files import starter_files
from evaluation.tasks.spec import find_operators, folder_of, reference_hash, self_tested
from evaluation.types import Split

TASKS = Path(__file__).resolve().parents[3] / "tasks"
SHORT = sorted({*find_operators(TASKS)} - {*self_tested(TASKS)})
BASELINES = [n for n in SHORT if (folder_of(TASKS, n) / "baseline" / "triton.py").is_file()]
TOML = """\
title = "Window sums"
category = "Math"
families = ["llm"]
require = ["kernel <= n"]
arguments = [
    { name = "x", role = "input", shape = ["rows", "n"], range = [0.0, 1.0] },
    { name = "pick", role = "input", dtype = "int64", shape = ["rows"], range = [0, "m"] },
    { name = "mask", role = "input", dtype = "bool", shape = ["rows"] },
    { name = "out", role = "output", shape = ["rows", "m"] },
    { name = "total", role = "output", dtype = "float32", shape = [] },
    { name = "kernel", role = "scalar", dtype = "int64" },
]
[domain]
dtypes = ["float32", "bfloat16"]
rows = [1, 4096]
n = [4, 4096]
kernel = { choices = [2, 3] }
[derived]
m = "n - kernel + 1"
[models]
one = { rows = 4096, n = 2048, kernel = 3, source = "of a model" }
two = { rows = 512, n = 4096, kernel = 2, dtype = "bfloat16" }
"""
SOURCE = """\
[source]
suite = "other-suite"
title = "Other suite"
repository = "https://github.com/owner/name"
commit = "0123456"
path = "window_sum.py"
sha256 = "0123"
licence = "MIT"
form = "calls"
version = 1
score = "the share that is right"
flags = []
fingerprint = "0123"
"""
REFERENCE = '''\
"""Sum windows of `kernel` elements of each row."""


def reference(x, pick, mask, kernel):
    out = x.float().unfold(-1, kernel, 1).sum(-1)
    return out.to(x.dtype), out.gather(-1, pick[:, None])[:, 0].where(mask, 0).sum()
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "Math" / "window_sum"
    place.mkdir(parents=True)
    (place / "task.toml").write_text(TOML)
    (place / "reference.py").write_text(REFERENCE)
    fitted = f'reference = "{reference_hash(place)}"\n[tolerance]\n'
    for dtype in ("float32", "bfloat16"):
        fitted += f"{dtype} = {{ c1 = 4.0, c2 = 2.0 }}\n"
    (place / "fitted.toml").write_text(fitted)
    return place


def test_operator_of_a_category_folder_is_found_by_its_name(folder: Path) -> None:
    root = folder.parents[1]
    assert find_operators(root) == ("window_sum",)
    assert folder_of(root, "window_sum") == folder
    assert load_task(root, "window_sum", "torch-to-triton").slug == "window_sum/torch-to-triton"
    other = root / "Loss" / "window_sum"
    other.mkdir(parents=True)
    (other / "task.toml").write_text(TOML)
    with pytest.raises(TaskError, match="is an operator of that name; rename one"):
        find_operators(root)


def test_category_other_than_the_folder_above_is_refused(folder: Path) -> None:
    toml = folder / "task.toml"
    for other in ("Maths", "Loss"):
        toml.write_text(TOML.replace('"Math"', f'"{other}"'))
        message = f"category: must be Math, as the folder above; got '{other}'"
        with pytest.raises(TaskError, match=message):
            load_operator(folder)
    moved = folder.rename(folder.parents[1] / "window_sum")  # no folder of a category is above
    assert load_operator(moved).category == "Loss"


def test_category_outside_the_list_is_for_imported_operators_alone(folder: Path) -> None:
    moved = folder.rename(folder.parents[1] / "window_sum")
    toml = moved / "task.toml"
    toml.write_text(TOML.replace('"Math"', '"Maths"'))
    with pytest.raises(TaskError, match=r"category: must be one of Activation, .*; got 'Maths'"):
        load_operator(moved)
    toml.write_text(toml.read_text() + SOURCE)
    assert load_operator(moved).category == "Maths"


def test_short_form_has_default_tracks_prompt_and_limits(folder: Path) -> None:
    tasks = [task.track.slug for task in load_tasks(folder)]
    assert tasks == ["torch-to-triton", "torch-to-cuda", "torch-to-torch"]
    operator = load_operator(folder)
    assert operator.prompt == "Sum windows of `kernel` elements of each row."
    assert (operator.level, operator.limits.case_mb) == (1, 8)
    (folder / "baseline").mkdir()
    (folder / "baseline" / "triton.py").write_text("# a baseline")
    assert "triton-to-triton" in [task.track.slug for task in load_tasks(folder)]


def test_models_are_seen_cases_which_a_cpu_sees_shrunk(folder: Path) -> None:
    on_cpu, on_gpu = load_operator(folder), load_operator(folder, "gpu")
    seen = [case for case in on_gpu.cases if case.split is Split.SEEN]
    assert [(c.name, c.dtype, c["rows"], c["n"], c["m"]) for c in seen] == [
        ("one", "float32", 4096, 2048, 2046),
        ("two", "bfloat16", 512, 4096, 4095),
    ]
    small = [case for case in on_cpu.cases if case.split is Split.SEEN]
    assert [(c.name, c["rows"], c["n"]) for c in small] == [
        ("one", 128, 2048),
        ("two", 128, 4096),
    ]
    assert all(on_cpu.domain.fits(case) for case in on_cpu.cases)


@pytest.mark.parametrize("name", SHORT)
def test_operator_of_this_checkout_has_three_to_six_models_with_their_sources(name: str) -> None:
    models = tomllib.loads((folder_of(TASKS, name) / "task.toml").read_text())["models"]
    assert 3 <= len(models) <= 6
    assert all(model["source"].strip() for model in models.values())


def test_one_model_without_a_source_is_enough_to_load(folder: Path) -> None:
    toml = folder / "task.toml"
    toml.write_text(TOML.partition("two = {")[0].replace(', source = "of a model"', ""))
    assert [c.name for c in load_operator(folder).cases if c.split is Split.SEEN] == ["one"]


def test_symbol_without_sizes_in_the_domain_is_refused_with_the_form_of_sizes(
    folder: Path,
) -> None:
    (folder / "task.toml").write_text(TOML.replace("\nrows = [1", "\nrowz = [1"))
    message = (
        r"domain\.rows: missing; add its sizes, such as `rows = \[1, 4096\]`, or a table with"
        r" `choices`, or correct the name .*; the domain also has rowz, n, kernel$"
    )
    with pytest.raises(TaskError, match=message):
        load_operator(folder)


def test_public_cases_that_are_all_too_large_leave_the_smallest(folder: Path) -> None:
    task = load_task(folder.parents[1], "window_sum", "torch-to-triton", "cpu")
    cases = task.checked_cases()
    sizes = [task.operator.elements(case) for case in cases]

    assert len(cases) > 2
    assert task.checked_cases(sizes[0] - 1) == cases[:1]
    assert max(map(task.operator.elements, task.checked_cases(sizes[-1] - 1))) < sizes[-1]


def test_limits_and_domain_of_the_gpu_table_count_on_a_gpu_only(folder: Path) -> None:
    more = '[gpu]\nlimits = { case_mb = 64 }\n[gpu.domain]\ndtypes = ["float32"]\nrows = [1, 64]\n'
    more += "n = [4, 4096]\nkernel = { choices = [2, 3] }\n"
    more += '[gpu.models]\nthree = { rows = 64, n = 2048, kernel = 3, source = "of a model" }\n'
    (folder / "task.toml").write_text(TOML + more)
    on_cpu, on_gpu = load_operator(folder), load_operator(folder, "gpu")
    assert (on_gpu.limits.case_mb, on_gpu.domain.dtypes) == (64, ("float32",))
    assert on_cpu.domain.dtypes == ("float32", "bfloat16")
    assert [case.name for case in on_gpu.cases if case.split is Split.SEEN] == ["three"]
    (folder / "task.toml").write_text(TOML + more + "[gpu.cases]\n")
    with pytest.raises(TaskError, match=r"gpu\.cases: unknown key"):
        load_operator(folder, "gpu")


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_unseen_cases_are_of_every_kind_and_always_the_same(folder: Path, kind: str) -> None:
    operator = load_operator(folder, kind)
    unseen = [case for case in operator.cases if case.split is Split.UNSEEN]
    assert Counter(case.kind for case in unseen) == {
        "edge": 1, "scale-up": 1, "scale-down": 1, "misaligned": 3, "asymmetric": 2, "production": 2
    }  # fmt: skip
    assert {case.dtype for case in unseen} == {"float32", "bfloat16"}
    assert operator.cases == load_operator(folder, kind).cases
    configurations = [tuple(case.symbols.items()) for case in operator.cases]
    assert len(set(configurations)) == len(configurations)
    assert all(case["m"] == case["n"] - case["kernel"] + 1 for case in unseen)


def test_default_inputs_follow_range_dtype_and_symbols(folder: Path) -> None:
    from evaluation.tasks.input_families import InputGenerator
    from evaluation.tasks.reference import Reference

    operator = load_operator(folder)
    case = min(operator.cases, key=operator.elements)
    own = operator.module().inputs(case, InputGenerator(torch.Generator(), "nominal"))
    assert own["mask"].dtype is torch.bool
    for family in operator.input_families:
        inputs = Reference(operator, case).draw(family)
        assert inputs["mask"].dtype is torch.bool
        assert 0 <= inputs["x"].min() <= inputs["x"].max() <= 1
        assert 0 <= inputs["pick"].min() <= inputs["pick"].max() < case["m"]


def test_stale_or_missing_fit_raises_task_error_with_the_command(folder: Path) -> None:
    (folder / "reference.py").write_text(REFERENCE + "\n\nMORE = 1\n")
    with pytest.raises(TaskError, match="run `python -m evaluation fit window_sum` again"):
        load_operator(folder)
    (folder / "fitted.toml").unlink()
    load_operator(folder)
    with pytest.raises(TaskError, match="no tolerance for float32, bfloat16: run `python -m"):
        load_tasks(folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('languages = ["go"]\ntitle', "", "languages: 'go' is not one of"),
        ('shrinks = ["kernel"]\ntitle', "", "shrinks: 'kernel' is not a size of the domain"),
        ('input_families = ["tiny"]\ntitle', "", "input_families: nominal is missing"),
        ("n = 2048", "n = 5000", "models.one.n: 5000 lies outside the domain"),
        ('"n - kernel + 1"', '"n / 2"', "derived.m: 'n / 2' has Div"),
        ('"n - kernel + 1"', '"open(n)"', "derived.m: 'open(n)' calls a function"),
        ('"kernel <= n"', '"n > 3000"', "models.one.require: 'n > 3000' does not hold"),
        ('["float32", "bfloat16"]', '["float32", "int32"]', "one dtype of whole numbers stands"),
        ("range = [0.0, 1.0]", "range = [0.0]", "range: must be two numbers or symbols"),
        ('dtype = "float32", shape = []', 'dtype = "float32"', "arguments[4].shape: missing"),
    ],
)
def test_malformed_short_form_raises_task_error_with_the_key(
    folder: Path, old: str, new: str, message: str
) -> None:
    text = TOML if new else f"{old} = " + TOML.removeprefix("title = ")
    if new:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "task.toml").write_text(text)
    with pytest.raises(TaskError) as refused:
        load_operator(folder)
    assert message in str(refused.value)


@pytest.mark.parametrize("name", SHORT)
def test_short_operator_of_the_catalogue_loads_for_every_device(name: str) -> None:
    folder = folder_of(TASKS, name)
    for kind in ("cpu", "gpu"):
        operator = load_operator(folder, kind)
        assert operator.category == folder.parent.name
        seen = [case for case in operator.cases if case.split is Split.SEEN]
        assert len(seen) >= 2
        assert len({case.kind for case in operator.cases}) >= 4
    assert load_tasks(folder)


@pytest.mark.parametrize("name", BASELINES)
def test_triton_baseline_of_the_catalogue_is_a_starter_with_tunables(name: str) -> None:
    task = load_task(TASKS, name, "triton-to-triton")
    source = starter_files(task)[task.target_file]
    tuned = re.findall(r"^# arena: tune (\w+) (.+)\n(\w+) = (\w+)$", source, re.MULTILINE)

    assert source == task.operator.baseline("triton")
    assert ast.get_docstring(ast.parse(source))
    assert len(tuned) == source.count("arena: tune") > 0
    for constant, choices, defined, value in tuned:
        assert defined == constant
        assert value in choices.split()
        assert len(choices.split()) >= 3
