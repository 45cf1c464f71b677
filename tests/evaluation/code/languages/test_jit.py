"""Kernels in CuTe DSL and TileLang are compiled without a GPU where the packages are there."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from typing import cast

import pytest

from evaluation.code.languages import helion, languages
from evaluation.code.languages._jit import JitLanguage
from evaluation.errors import Broken, BuildError, Rejected, SubmissionError, TaskError
from evaluation.kinds.kernel.builds import build
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.spec import Task
from evaluation.types import Reason
from tests.evaluation.code.languages.machine import needs_nvcc

FOLDER = Path(__file__).parent / "operators"
OPERATORS = Path(__file__).resolve().parents[4] / "tasks"
CUTEDSL = """\
import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def scale(x: cute.Tensor, out: cute.Tensor, by: cutlass.Float32):
    block, _, _ = cute.arch.block_idx()
    thread, _, _ = cute.arch.thread_idx()
    place = block * 128 + thread
    if place < cute.size(out):
        out[place] = x[place] * by


@cute.jit
def launch(x: cute.Tensor, out: cute.Tensor, by: cutlass.Float32, stream: cuda.CUstream):
    blocks = (cute.size(out) + 127) // 128
    scale(x, out, by).launch(grid=(blocks, 1, 1), block=(128, 1, 1), stream=stream)


def twice(x, out, by):
    views = from_dlpack(x.view(-1)), from_dlpack(out.view(-1))
    stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
    cute.compile(launch, *views, by, stream)(*views, by, stream)
"""
TILELANG = """\
import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def scaling(size):
    @T.prim_func
    def scale(x: T.Tensor((size,), "float32"), out: T.Tensor((size,), "float32"), by: T.float32):
        with T.Kernel(T.ceildiv(size, 128), threads=128) as block:
            for thread in T.Parallel(128):
                if block * 128 + thread < size:
                    out[block * 128 + thread] = x[block * 128 + thread] * by

    return scale


def twice(x, out, by):
    scaling(x.numel())(x.view(-1), out.view(-1), by)
"""
HONEST = {"cutedsl": CUTEDSL, "tilelang": TILELANG}


@pytest.fixture(params=list(HONEST))
def language(request: pytest.FixtureRequest) -> JitLanguage:
    return cast(JitLanguage, languages()[request.param])


@pytest.fixture
def task(language: JitLanguage) -> Task:
    return load_task(FOLDER, "twice", f"torch-to-{language.name}")


@pytest.fixture
def installed(language: JitLanguage) -> None:
    if not importlib.util.find_spec(language.module):
        pytest.skip(f"needs {language.requirement}")


@pytest.fixture(autouse=True)
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile for the same GPU, whichever is here."""
    monkeypatch.setenv("ARENA_CUDA_ARCH", "sm_90a")


@needs_nvcc
@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_kernel_is_compiled_for_a_gpu_that_is_not_here(
    language: JitLanguage, task: Task, cache: Path
) -> None:
    (output,) = build(task, language.name, {"twice.py": HONEST[language.name]}, cache).outputs
    assert (output.arch, output.ok) == ("sm_90a", True)
    assert any("scale" in name for name in output.resources)
    assert any("global" in text for text in output.listings.values())


@needs_nvcc
@pytest.mark.slow
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("* by", "* nothing", "nothing"), ("def twice", "def thrice", "no function `twice`")],
)
def test_faulty_source_fails_with_its_error(
    old: str, new: str, said: str, language: JitLanguage, task: Task, cache: Path
) -> None:
    source = HONEST[language.name].replace(old, new)
    with pytest.raises(SubmissionError) as caught:
        build(task, language.name, {"twice.py": source}, cache)
    assert said in caught.value.message
    missing = caught.value.reason is Reason.MISSING_ENTRY
    assert missing is (old == "def twice") and missing is not isinstance(caught.value, BuildError)


def test_every_operator_that_goes_to_triton_goes_to_the_language(language: JitLanguage) -> None:
    task = load_task(OPERATORS, "softmax", f"torch-to-{language.name}")
    assert task.target_file == "softmax.py" and language.name in task.operator.languages
    with pytest.raises(TaskError, match="no track cutedsl-to"):
        load_task(OPERATORS, "softmax", f"cutedsl-to-{language.name}")


def test_requirement_is_that_of_the_project(language: JitLanguage) -> None:
    project = tomllib.loads((OPERATORS.parent / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    assert optional[language.name] == [language.requirement]
    assert optional["helion"] == [helion.REQUIREMENT]


def test_missing_package_is_named_with_its_remedy(
    language: JitLanguage, task: Task, cache: Path
) -> None:
    if importlib.util.find_spec(language.module):
        pytest.skip("it is here")
    said = rf"{language.module} is not installed; install it: .*{language.requirement}"
    with pytest.raises(Broken, match=said):
        build(task, language.name, {"twice.py": HONEST[language.name]}, cache)
    assert language.requirement in language.runs_here()


def test_honest_kernel_reads_well_and_host_code_that_computes_does_not(
    language: JitLanguage, task: Task
) -> None:
    source = HONEST[language.name]
    language.check({"twice.py": source}, task)
    for line in ("torch.mul(x, by, out=out)", "out.copy_(x)", "x @ x", "language.fn(x)"):
        with pytest.raises(Rejected) as caught:
            language.check({"twice.py": f"{source}    {line}\n"}, task)
        assert caught.value.rule == "library-wrapper"
    within = source.replace("        out[place]", "        torch.mm(x, x)\n        out[place]")
    within = within.replace(
        "                if block", "                torch.mm(x, x)\n                if block"
    )
    with pytest.raises(Rejected, match=r"`torch.mm` computes outside"):
        language.check({"twice.py": within}, task)
    with pytest.raises(Rejected, match="no function is decorated with @"):
        language.check({"twice.py": "def twice(x, out, by):\n    pass\n"}, task)
