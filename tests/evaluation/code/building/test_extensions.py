"""What `load_inline` asks for is built behind the walls, once, and found where no compiler is."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from evaluation.code.building import extensions, native
from evaluation.code.languages import languages
from evaluation.errors import Broken, BuildError, SubmissionError
from evaluation.judge.request import Request
from evaluation.kinds.kernel.builds import Build, build
from evaluation.kinds.kernel.judge import evaluate
from evaluation.kinds.kernel.load import load_task
from evaluation.sandboxed import build_torch
from evaluation.sandboxed.kernels import loader
from evaluation.tasks.spec import Task
from evaluation.types import Argument, Reason, Verdict
from tests.conftest import skip_or_fail
from tests.evaluation.conftest import OPERATORS

TOO_DEEP = ("-" * 50_000 + "1", "a" + ".b" * 100_000, "1" + "+1" * 50_000, "a" + ".b" * 900 + "()")
"""Expressions that the parser, or what walks a tree, does not take."""
SOURCE = '''\
from torch.utils.cpp_extension import load_inline

CPP = """
#include <Python.h>
#define NAMED_(name) PyInit_##name
#define NAMED(name) NAMED_(name)
static PyObject* by(PyObject*, PyObject* scale) {
    return PyFloat_FromDouble(2 * PyFloat_AsDouble(scale));
}
static PyMethodDef functions[] = {{"by", by, METH_O, nullptr}, {}};
static PyModuleDef about = {PyModuleDef_HEAD_INIT, "ours", nullptr, -1, functions};
PyMODINIT_FUNC NAMED(TORCH_EXTENSION_NAME)() { return PyModule_Create(&about); }
"""
ours = load_inline("ours", [CPP], extra_cflags=["-O1"], no_implicit_headers=True)


def scaled(x, scale):
    return x * ours.by(scale)
'''
ARGUMENTS = (
    Argument("x", "input", "dtype", ("n",)),
    Argument("out", "output", "dtype", ("n",)),
    Argument("scale", "scalar", "float32"),
)


@pytest.fixture
def task() -> Task:
    return load_task(OPERATORS, "scaled", "torch-to-torch")


@pytest.fixture
def tools() -> None:
    if lacks := extensions.lacking():
        skip_or_fail(lacks)


def built(source: str, task: Task, cache: Path) -> Build:
    return build(task, "torch", {task.target_file: source}, cache)


def refused(source: str, task: Task, cache: Path) -> BuildError:
    with pytest.raises(BuildError) as caught:
        built(source, task, cache)
    return caught.value


@pytest.fixture
def contestant(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in for a module of PyTorch's here is gone after the test."""
    name = "torch.utils.cpp_extension"
    monkeypatch.setitem(sys.modules, name, sys.modules.get(name, torch))
    monkeypatch.setattr(torch.utils, "cpp_extension", None, raising=False)


@pytest.mark.usefixtures("tools", "contestant")
def test_a_library_is_built_once_and_loaded_where_there_is_no_compiler(
    task: Task, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = built(SOURCE, task, cache)
    syntax, output = made.outputs
    assert (output.tool, output.ok, syntax.tool) == ("load_inline", True, "python")
    assert "-O1" in output.text and "main.cpp" in output.text and str(cache) not in output.text
    (library,) = (made.folder / "extensions").iterdir()
    assert library.name.startswith("ours.")
    assert sorted(path.name for path in cache.joinpath("builds").glob("*-*")) == []

    monkeypatch.setattr(extensions, "build", None)  # found, not built again
    assert built(SOURCE, task, cache).folder == made.folder

    monkeypatch.setenv("PATH", "/nowhere")
    slot = {"x": torch.ones(3), "out": torch.zeros(3), "n": 3, "scale": 1.5}
    loader("torch").load(made.folder, "scaled").bind(ARGUMENTS, [slot])(0, 1)
    assert slot["out"].tolist() == [3.0] * 3


@pytest.mark.usefixtures("tools")
def test_what_the_compiler_refuses_is_told_with_its_line(task: Task, cache: Path) -> None:
    error = refused(SOURCE.replace("2 * Py", "skale * Py"), task, cache)
    assert "an extension was refused: main.cpp:6: " in error.message
    assert "skale" in error.message
    assert error.outputs[0].diagnostics[0].severity == "error"


@pytest.mark.usefixtures("tools", "contestant")
def test_a_refusal_may_be_answered_by_another_way(task: Task, cache: Path) -> None:
    lines = SOURCE.replace("2 * Py", "skale * Py").splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("ours ="))
    lines[at : at + 1] = ["try:", f"    {lines[at]}", "except Exception:", "    ours = None"]
    source = "\n".join(lines).replace("ours.by(scale)", "(scale if ours is None else 0)")
    made = built(source, task, cache)
    assert "error: " in made.outputs[1].text
    slot = {"x": torch.ones(3), "out": torch.zeros(3), "n": 3, "scale": 1.5}
    loader("torch").load(made.folder, "scaled").bind(ARGUMENTS, [slot])(0, 1)
    assert slot["out"].tolist() == [1.5] * 3


@pytest.mark.usefixtures("tools", "contestant")
def test_what_needs_a_gpu_when_it_is_imported_is_told_why_nothing_was_built(
    task: Task, cache: Path
) -> None:
    made = built(SOURCE.replace("ours =", "raise RuntimeError('no GPU')\nours ="), task, cache)
    assert "RuntimeError: no GPU" in made.outputs[1].text
    folder = made.folder.parent / "other"
    shutil.copytree(made.folder, folder)
    (folder / "scaled.py").write_text(SOURCE)
    with pytest.raises(SubmissionError, match="also where there is no GPU") as caught:
        loader("torch").load(folder, "scaled")
    assert caught.value.reason is Reason.BUILD_ERROR


@pytest.mark.usefixtures("tools")
def test_a_build_that_ends_itself_or_never_ends_is_a_build_error(task: Task, cache: Path) -> None:
    ends = "from torch.utils.cpp_extension import load_inline\nimport os\nos._exit(9)\n"
    assert "ended with code 9" in refused(ends, task, cache).message
    limits = dataclasses.replace(task.operator.limits, seconds=0.5)
    hurried = dataclasses.replace(task, operator=dataclasses.replace(task.operator, limits=limits))
    never = "from torch.utils.cpp_extension import load_inline\nwhile True:\n    pass\n"
    assert "took longer than 2 s" in refused(never, hurried, cache).message


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(("name", "levels"), [("d", 1100), ("d" * 250, 20)])
def test_folders_that_a_build_leaves_are_gone_however_deep(
    task: Task, cache: Path, name: str, levels: int
) -> None:
    lines = (
        "from torch.utils.cpp_extension import load_inline",
        "import os",
        "os.chdir(os.environ['TORCH_EXTENSIONS_DIR'])",
        f"for _ in range({levels}):",
        f"    os.mkdir('{name}')",
        f"    os.chdir('{name}')",
        "print('made')",
    )
    assert "made" in built("\n".join(lines), task, cache).outputs[1].text
    assert sorted(path.name for path in cache.joinpath("builds").glob("*-*")) == []


@pytest.mark.usefixtures("tools")
@pytest.mark.skipif(torch.version.cuda is not None, reason="PyTorch was built for CUDA")
def test_cuda_is_refused_in_words_where_pytorch_was_not_built_for_it(
    task: Task, cache: Path
) -> None:
    hidden = '[CPP], **{"cuda_" + "sources": "__global__ void f() {}"},'
    source = SOURCE.replace("[CPP],", hidden)
    assert "need a PyTorch built for CUDA" in refused(source, task, cache).message


@pytest.mark.parametrize("deep", TOO_DEEP[:3])
def test_file_that_is_nested_too_deeply_ends_at_a_gate(deep: str, task: Task, cache: Path) -> None:
    source = f"def scaled(x, weight, shift):\n    return x * weight + shift\n\n\ny = {deep}\n"
    report = evaluate(Request(task, {task.target_file: source}, cache, scope="round"))
    assert (report.verdict, report.reason) == (Verdict.FAILED, Reason.UNSUPPORTED)
    assert "nested too deeply" in report.message


@pytest.mark.parametrize(
    "arguments",
    ['[CPP], "__global__ void f() {}",', "[CPP], cuda_sources=[CPP],", '[CPP], ["", KERNEL],'],
)
def test_cuda_extension_without_a_gpu_is_skipped_as_a_cuda_source_is(
    arguments: str, task: Task, cache: Path
) -> None:
    source = SOURCE.replace("[CPP],", arguments)
    assert source != SOURCE
    report = evaluate(Request(task, {task.target_file: source}, cache, scope="round"))
    compiled, correctness = report.gates[1], report.gates[2]
    assert compiled.verdict is Verdict.PASSED, "its Python is checked"
    assert (correctness.verdict, correctness.reason) == (Verdict.SKIPPED, Reason.NO_DEVICE)
    assert "on an NVIDIA GPU alone" in correctness.message
    assert report.verdict is Verdict.SKIPPED


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("load_inline('a', CPP)", False),
        ("load_inline('a', CPP, '')", False),
        ("load_inline('a', CPP, cuda_sources=[])", False),
        ("cpp_extension.load_inline(name='a', cpp_sources='', cuda_sources=CUDA)", True),
        ("def broken(", False),
        *[(f"load_inline('a', CPP)\nx = {deep}", False) for deep in TOO_DEEP],
    ],
)
def test_cuda_sources_of_an_extension_are_seen_in_its_call(source: str, expected: bool) -> None:
    assert extensions.requests_cuda({"a.py": source}) is expected
    language = languages()["torch"]
    assert bool(language.not_run({"a.py": source}, "cpu")) is expected
    assert not language.not_run({"a.py": source}, "gpu")


def test_a_missing_tool_is_the_machines_fault(
    task: Task, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extensions, "_PATH", "/nowhere")
    with pytest.raises(Broken, match="ninja is not installed"):
        built(SOURCE + "# elsewhere\n", task, cache)


def test_plain_pytorch_is_built_by_no_compiler(
    task: Task, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "compiler_version", None)
    plain = "def scaled(x, scale):\n    return x * scale\n"
    assert [output.tool for output in built(plain, task, cache).outputs] == ["python"]


def test_only_regular_libraries_are_moved_out_of_the_sandbox(tmp_path: Path) -> None:
    work, kept = tmp_path / "work", tmp_path / "kept"
    work.mkdir()
    kept.mkdir()
    key = "0" * 40
    (work / f"good.{key}.so").write_text("library")
    (work / f"linked.{key}.so").symlink_to("/etc/passwd")
    (work / f"folder.{key}.so").mkdir()
    (work / "short.00.so").write_text("no key")
    (work / "..so").write_text("no name")
    extensions._move_libraries(work, kept)
    assert [path.name for path in kept.iterdir()] == [f"good.{key}.so"]


def test_a_library_is_known_by_the_arguments_of_its_call() -> None:
    sources = ["int a;"]
    known = build_torch.key_of("ours", sources, functions=["f"], verbose=True)
    assert build_torch.key_of("ours", ["int a;"], verbose=True, functions=["f"]) == known
    others: list[tuple[Any, dict[str, Any]]] = [
        (("ours", ["int b;"]), {"functions": ["f"], "verbose": True}),
        (("ours", sources), {"functions": ["f"]}),
        (("other", sources), {"functions": ["f"], "verbose": True}),
    ]
    assert known not in {build_torch.key_of(*words, **options) for words, options in others}


@pytest.mark.parametrize(
    ("architecture", "capability"),
    [("sm_80", "8.0"), ("sm_90a", "9.0a"), ("sm_100", "10.0"), ("sm_120f", "12.0f")],
)
def test_an_architecture_is_called_as_pytorch_calls_it(architecture: str, capability: str) -> None:
    assert extensions._capability(architecture) == capability
