"""Tests of tasks: reading `task.toml`, cases, implementations and hashes."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from evaluation.errors import TaskError
from evaluation.kinds.kernel.builds import baselines
from evaluation.kinds.kernel.load import load_operator, load_task, load_tasks
from evaluation.kinds.kernel.workspace_files import starter_files
from evaluation.shapes import elements, extent, shape_of, tensor_bytes
from evaluation.tasks.domain import Choices, LogUniform
from evaluation.tasks.spec import OPEN_TRACK, find_operators, folder_of
from evaluation.types import Case, Split

TASKS = Path(__file__).resolve().parents[3] / "tasks"


@pytest.fixture
def edited(tmp_path: Path) -> Callable[[str, str], Path]:
    """Replace one piece of the task.toml in a copy of an operator folder."""

    def edit(old: str, new: str) -> Path:
        folder = tmp_path / "rms_norm"
        shutil.copytree(TASKS / "Normalization" / "rms_norm", folder)
        toml = folder / "task.toml"
        text = toml.read_text()
        assert old in text
        toml.write_text(text.replace(old, new, 1))
        return folder

    return edit


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "RMS norm"', "", "title: missing"),
        ('title = "RMS norm"', "title = 7", "title: must be a string"),
        ("level = 1", "level = 1\nlevle = 2", "levle: unknown key"),
        ("level = 1", "level = true", "level: must be an integer"),
        ('"cpp-to-cpp"', '"cpp-to-cobol"', "'cpp-to-cobol' is not <language>-to-<language>"),
        ('role = "output"', 'role = "result"', "arguments[2].role: must be one of input"),
        ('dtype = "float32" },\n]', 'dtype = "quad" },\n]', "arguments[3].dtype: must be one of"),
        ('["rows", "cols"]', '["rows", "cols+1"]', "'cols+1' is not an integer, a symbol"),
        ('["rows", "cols"]', '["rows", "columns"]', "domain.columns: missing"),
        ("[1, 4096]", "[4096, 1]", "domain.rows.log_uniform: must be two sizes"),
        ("[1e-6, 1e-5]", "[]", "domain.eps.choices: must be a list of numbers"),
        ("rows = 8,", "rows = 80000,", "rows: 80000 lies outside the domain"),
        ("rows = 8,", "", "rows: missing"),
        ("eps = 1e-5 }", "eps = 1e-3 }", "eps: 0.001 lies outside the domain"),
        ('name = "llama-1b-prefill"', 'name = "llama-8b-prefill"', "is the name of an earlier"),
        ('split = "seen"', 'split = "sampled"', "split: must be one of seen, unseen"),
        ('kind = "edge"', 'kind = "odd"', "kind: must be one of nominal"),
        ("case_mb = 48", "case_mb = 1", "is larger than limits.case_mb"),
        ("seconds = 120", "seconds = 0", "limits.seconds: must be a number above 0"),
        ("float16 = { c1 = 2.0, c2 = 1.0 }", "", "tolerance.float16: missing"),
        ("[domain]", "[domain", "not TOML"),
    ],
)
def test_load_operator_malformed_raises_task_error_with_the_key(
    edited: Callable[[str, str], Path], old: str, new: str, message: str
) -> None:
    with pytest.raises(TaskError) as refused:
        load_operator(edited(old, new))
    assert "task.toml" in str(refused.value)
    assert message in str(refused.value)


def test_load_task_unknown_raises_task_error_with_known_ones() -> None:
    with pytest.raises(TaskError, match=r"no such operator.*rms_norm"):
        load_task(TASKS, "rms_nrom", "torch-to-cpp")
    with pytest.raises(TaskError, match=r"rms_nrom: .*; did you mean rms_norm\?$"):
        load_task(TASKS, "rms_nrom", "torch-to-cpp")
    with pytest.raises(TaskError, match=r"xyz: .*; there are: (\w+, ){8}\.\.\.$"):
        load_task(TASKS, "xyz", "torch-to-cpp")
    with pytest.raises(TaskError, match="no track torch-to-fortran; there are: torch-to-cpp"):
        load_task(TASKS, "rms_norm", "torch-to-fortran")
    with pytest.raises(TaskError, match="no such folder"):
        find_operators(TASKS / "nowhere")


def test_load_tasks_returns_one_task_for_each_track() -> None:
    for name in find_operators(TASKS):
        slugs = [
            track.slug for track in (*load_operator(folder_of(TASKS, name)).tracks, OPEN_TRACK)
        ]
        alone = [load_task(TASKS, name, slug) for slug in slugs]
        together = load_tasks(folder_of(TASKS, name))
        assert [task.track.slug for task in together] == slugs
        assert together == alone


def test_load_task_without_a_case_raises_task_error(tmp_path: Path) -> None:
    toml = (
        shutil.copytree(TASKS / "Normalization" / "rms_norm", tmp_path / "rms_norm") / "task.toml"
    )
    toml.write_text(re.sub(r'(split = "seen".*)"float32"', r'\1"float16"', toml.read_text()))
    message = "cpp-to-cpp has no seen case on a cpu, where it is judged in float32; add one"
    with pytest.raises(TaskError, match=message):
        load_task(tmp_path, "rms_norm", "cpp-to-cpp")
    with pytest.raises(TaskError, match="torch-to-cpp has no seen case"):
        load_tasks(toml.parent)
    assert load_task(tmp_path, "rms_norm", "triton-to-triton", "cpu").cases(Split.SEEN)


def test_open_track_exists_for_every_operator() -> None:
    for name in find_operators(TASKS):
        task = load_task(TASKS, name, "torch-to-torch")
        assert task.target_file == f"{name}.py" and task.dtypes
        assert task.track not in load_operator(folder_of(TASKS, name)).tracks
        skeleton = starter_files(task)[task.target_file]
        outputs = {argument.name for argument in task.operator.outputs}
        entry = next(n for n in ast.parse(skeleton).body if isinstance(n, ast.FunctionDef))
        assert outputs < {argument.arg for argument in entry.args.args}
        brief = starter_files(task)["TASK.md"]
        assert "`ModelNew`" in brief and "load_inline`" in brief


def test_pytorch_baseline_discards_its_results(tmp_path: Path) -> None:
    for track in ("torch-to-torch", "torch-to-cpp"):
        for baseline in baselines(load_task(TASKS, "rms_norm", track), tmp_path):
            source = (baseline.folder / "rms_norm.py").read_text()
            assert baseline.discards and "discards_result = True" in source, baseline.name


def test_mutants_without_note_or_valid_name_raise_task_error(tmp_path: Path) -> None:
    folder = tmp_path / "rms_norm"
    shutil.copytree(TASKS / "Normalization" / "rms_norm", folder)
    silent = folder / "mutants" / "silent.cpp.cpp"
    silent.write_text("int x;\n")
    with pytest.raises(TaskError, match=r"silent\.cpp\.cpp: begin with a comment"):
        load_operator(folder).mutants()
    silent.write_text("// mutant: without effect\n")
    for name, message in (
        ("silent.txt", r"silent\.txt: name it <name>"),
        ("silent.no.cpp.cpp", r"silent\.no\.cpp\.cpp: name it <name>"),
        ("silent.rust.rs", r"silent\.rust\.rs: rust is no language; there are: cpp, cuda"),
        (
            "silent.cpp.txt",
            r"silent\.cpp\.txt: a source in cpp ends in \.cpp, edits of one in \.toml",
        ),
        ("no_eps.cpp.cpp", r"no_eps\.cpp\.toml: no_eps in cpp is there twice; rename one"),
    ):
        silent.rename(folder / "mutants" / name)
        with pytest.raises(TaskError, match=message):
            load_operator(folder).mutants()
        (folder / "mutants" / name).rename(silent)


EDITED = """\
note = "leaves out the weight"
of = "honest/lanes.cpp.cpp"
edits = [[' * weight', ''], ['return 0;', 'return 1;']]
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", "", ""),
        (
            "' * weight'",
            "' / weight'",
            r"must occur once in honest/lanes\.cpp\.cpp, not 0",
        ),
        ("' * weight'", "'x'", r"'x' must occur once in honest/lanes\.cpp\.cpp, not 3 times"),
        ("'return 0;'", "' * weight'", r"must occur once.* after the edits before it, not 0"),
        ("['return 0;', 'return 1;']", "['return 0;']", r"edits\[1\]: must be a text and a"),
        ("return 1;", "return 0;", r"edits\[1\]: must be a text and a different replacement"),
        ("' * weight'", "''", r"edits\[0\]: must be a text and a different replacement"),
        ("honest/lanes", "honest/none", r"of: must be one of baseline/cpp\.cpp, honest/.*lanes"),
        ("honest/lanes.cpp.cpp", "../../README.md", r"of: must be one of baseline/cpp\.cpp"),
        ("honest/lanes.cpp.cpp", "baseline/cuda.cu", r"of: must be one of baseline/cpp\.cpp"),
        ("note", "expect = 'SLOW'\nnote", r"bare\.cpp\.toml: expect: SLOW is no reason"),
        ("note", "about", r"bare\.cpp\.toml: note: missing"),
        ("of =", "to = 1\nof =", r"bare\.cpp\.toml: to: unknown key"),
    ],
)
def test_mutant_written_as_edits_is_applied_or_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    folder = tmp_path / "rms_norm"
    shutil.copytree(TASKS / "Normalization" / "rms_norm", folder)
    right = "int scaled(int x, int weight) {\n    x = x * weight;\n    return 0;\n}\n"
    (folder / "honest" / "lanes.cpp.cpp").write_text(right)
    (folder / "mutants" / "bare.cpp.toml").write_text(EDITED.replace(old, new, 1))
    if message:
        with pytest.raises(TaskError, match=message):
            load_operator(folder).mutants()
        return
    (bare,) = (e for e in load_operator(folder).mutants() if e.name == "bare")
    wrong = right.replace(" * weight", "").replace("return 0", "return 1")
    assert (bare.language, bare.note, bare.source) == ("cpp", "leaves out the weight", wrong)


def test_file_of_a_task_that_cannot_be_read_raises_task_error(
    edited: Callable[[str, str], Path],
) -> None:
    folder = edited("", "")
    (folder / "prompt.md").unlink(missing_ok=True)
    (folder / "reference.py").unlink()
    (folder / "reference.py").mkdir()
    with pytest.raises(TaskError, match=r"reference\.py: Is a directory; make it a file"):
        load_operator(folder)


def test_reference_without_a_function_raises_task_error(tmp_path: Path) -> None:
    folder = tmp_path / "rms_norm"
    shutil.copytree(TASKS / "Normalization" / "rms_norm", folder)
    (folder / "reference.py").write_text("def magnitude(x): return x\n")
    with pytest.raises(TaskError, match=r"reference\.py: reference: missing"):
        load_operator(folder).module()


def test_hash_changes_with_track_and_files_but_not_implementations(
    edited: Callable[[str, str], Path],
) -> None:
    folder = edited("level = 1", "level = 1")

    def current(track: str = "torch-to-cpp") -> str:
        return load_task(folder.parent, "rms_norm", track).hash

    first = current()
    assert first == load_task(TASKS, "rms_norm", "torch-to-cpp").hash
    assert first != current("cpp-to-cpp")
    prompt = folder / "prompt.md"
    prompt.write_text(prompt.read_text() + " ")
    assert current() != first
    (folder / "__pycache__").mkdir(exist_ok=True)
    second = current()
    (folder / "__pycache__" / "reference.pyc").write_bytes(b"compiled")
    for implementations in ("honest", "mutants"):
        (folder / implementations / "further.cpp.cpp").write_text("int x;\n")
    assert current() == second
    (folder / "baseline" / "further.cpp").write_text("int x;\n")
    assert current() != second


@pytest.mark.parametrize("place", ["honest/further.cpp.cpp", "mutants/further.cpp.toml"])
def test_answers_hash_changes_with_answers_in_the_target_language_alone(
    edited: Callable[[str, str], Path], place: str
) -> None:
    folder = edited("level = 1", "level = 1")

    def current(track: str) -> str:
        return load_task(folder.parent, "rms_norm", track).answers_hash

    cpp, triton = current("torch-to-cpp"), current("torch-to-triton")
    assert cpp != triton and cpp == current("cpp-to-cpp")
    (folder / place).write_text("of = 1\n")
    assert current("torch-to-cpp") != cpp
    assert current("torch-to-triton") == triton


def test_extent_of_a_size_symbol_or_product() -> None:
    symbols = {"heads": 4, "half": 16}
    assert [extent(d, symbols) for d in (3, "heads", "2*half", "heads*2*half")] == [3, 4, 32, 128]


def test_shapes_of_outputs_have_the_sizes_of_the_case() -> None:
    rope = load_operator(TASKS / "Fusion" / "rope")
    sizes = {"tokens": 5, "heads": 4, "kv_heads": 2, "half_dim": 8}
    case = Case("mine", Split.SEEN, "nominal", "float32", sizes)
    assert [shape_of(each, case) for each in rope.outputs] == [(5, 4, 16), (5, 2, 16)]


def test_sample_lies_in_the_domain_and_limits() -> None:
    operator = load_operator(TASKS / "MatrixMultiply" / "matmul")
    random = Random(7)
    drawn = [operator.domain.sample(random, f"s{i}") for i in range(200)]
    for case in drawn:
        assert case.split is Split.SAMPLED
        assert all(r.holds(case[s]) for s, r in operator.domain.symbols.items())
        assert tensor_bytes(operator.arguments, case) <= operator.limits.case_mb * 2**20
    assert {case.dtype for case in drawn} == set(operator.domain.dtypes)
    assert sum(case["n"] % 2 for case in drawn) > 80, "half of all sizes are odd"
    assert len({case["n"].bit_length() for case in drawn}) > 8, "every magnitude is drawn"


def test_sample_has_the_requested_dtype_and_size() -> None:
    operator = load_operator(TASKS / "Fusion" / "rope")
    for i in range(50):
        case = operator.domain.sample(Random(i), "s", ("float16",), max_elements=4096)
        assert case.dtype == "float16"
        assert elements(operator.arguments, case) <= 4096
        assert case["tokens"] <= 4096 // 32, "the interpreter runs one program a row"
    smallest = operator.domain.sample(Random(0), "s", max_elements=3)
    assert all(smallest[s] == r.boundaries()[0] for s, r in operator.domain.symbols.items())


def test_sample_repeats_with_its_seed() -> None:
    domain = load_operator(TASKS / "Math" / "softmax").domain
    assert domain.sample(Random(5), "s") == domain.sample(Random(5), "s")
    assert domain.sample(Random(5), "s") != domain.sample(Random(6), "s")


def test_boundaries_have_every_boundary_size_of_every_symbol() -> None:
    operator = load_operator(TASKS / "Normalization" / "rms_norm")
    cases = operator.domain.boundaries()
    assert {1, 3, 7, 15, 16, 17, 1023, 1024, 1025} <= {case["rows"] for case in cases}
    assert {1, 3, 7, 15, 16, 17, 1023, 1024, 1025} <= {case["cols"] for case in cases}
    assert {case.dtype for case in cases} == set(operator.domain.dtypes)
    assert len({case.name for case in cases}) == len(cases)


def test_ranges_draw_within_bounds_and_multiples() -> None:
    sizes = LogUniform(8, 100, multiple_of=8)
    drawn = {sizes.draw(Random(i)) for i in range(300)}
    assert drawn <= {8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96}
    assert len(drawn) > 6
    assert sizes.boundaries() == (16, 64)
    assert not sizes.holds(12)
    assert Choices((32, 64)).draw(Random(0)) in (32, 64)


def test_loading_a_task_does_not_import_torch() -> None:
    code = (
        "import sys; from pathlib import Path; from evaluation.kinds.kernel.load import load_task;"
        "from evaluation.kinds.kernel.workspace_files import starter_files;"
        f"starter_files(load_task(Path({str(TASKS)!r}), 'rope', 'cpp-to-cpp'));"
        "from evaluation.kinds.kernel import gates, judge;"
        "from evaluation.bench.devices import detect;"
        "gates.gates(); detect._vendors();"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=TASKS.parent).returncode == 0
