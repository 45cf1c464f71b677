"""A Triton answer is compiled in the sandbox for GPUs that are not here, and run by interpreter."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluation.code.languages import languages
from evaluation.code.languages.triton import read_result, targets
from evaluation.errors import BuildError, Rejected, SubmissionError
from evaluation.judge.request import Request
from evaluation.kinds.kernel.builds import build
from evaluation.kinds.kernel.judge import evaluate
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.spec import Task
from evaluation.types import GateName, Reason, Split, Verdict
from tests.evaluation.code.languages.machine import without_gpu

TRITON = languages()["triton"]
FOLDER = Path(__file__).parent / "operators"

HONEST = """\
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, out, n, by, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) * by, at < n)


def twice(x, out, by):
    n = x.numel()
    scale_kernel[(triton.cdiv(n, 256),)](x, out, n, by, BLOCK=256)
"""


@pytest.fixture
def task() -> Task:
    return load_task(FOLDER, "twice", "torch-to-triton")


def refused(source: str, task: Task, cache: Path) -> BuildError:
    with pytest.raises(BuildError) as caught:
        build(task, "triton", {"twice.py": source}, cache)
    return caught.value


@pytest.fixture(autouse=True)
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled for does not depend on the GPU that is here."""
    monkeypatch.setenv("ARENA_CUDA_ARCH", "sm_90a")


@pytest.mark.usefixtures("everywhere")
def test_every_kernel_is_compiled_for_hopper_blackwell_and_amd(task: Task, cache: Path) -> None:
    made = build(task, "triton", {"twice.py": HONEST}, cache)
    nvidia, amd, blackwell = made.outputs
    assert (nvidia.arch, amd.arch, blackwell.arch) == ("cuda:90", "hip:gfx942", "cuda:100")
    assert all(output.ok for output in made.outputs) and nvidia.tool.startswith("triton ")
    assert 0 < nvidia.resources["scale_kernel"]["registers"] <= 255
    assert nvidia.resources["scale_kernel"]["spill_store_bytes"] == 0
    assert nvidia.resources["scale_kernel"]["shared_bytes"] >= 0
    assert amd.resources["scale_kernel"]["vector_registers"] > 0
    assert ".target sm_90a" in nvidia.listings["scale_kernel.ptx"]
    assert "ttg" in nvidia.listings["scale_kernel.ttgir"]
    listings = [text for output in made.outputs for text in output.listings.values()]
    assert not any(str(cache) in text for text in listings), "they name files, not folders of ours"
    assert "gfx942" in amd.listings["scale_kernel.amdgcn"]
    assert ".target sm_100a" in blackwell.listings["scale_kernel.ptx"]
    assert 0 < blackwell.resources["scale_kernel"]["registers"] <= 255
    assert not (made.folder / "work").exists()


LARGE = """\
import triton
import triton.language as tl


@triton.jit
def large(x, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, within = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(x + rows[:, None] * K + within[None, :])
    right = tl.load(x + within[:, None] * N + columns[None, :])
    tl.store(out + rows[:, None] * N + columns[None, :], tl.dot(left, right))


def twice(x, out, by):
    large[(1,)](x, out, M=64, N=128, K=256, num_warps=8)
"""
INLINE = HONEST.replace(
    "tl.load(x + at, at < n) * by",
    'tl.inline_asm_elementwise("ex2.approx.f32 $0, $1;", "=f,f", [tl.load(x + at, at < n) * by],'
    " dtype=tl.float32, is_pure=True, pack=1)",
)


@pytest.mark.parametrize(
    ("source", "said"), [(LARGE, "shared memory"), (INLINE, "")], ids=["shared memory", "PTX"]
)
@pytest.mark.usefixtures("everywhere")
def test_what_only_the_gpu_that_is_here_can_run_is_no_failure(
    source: str, said: str, task: Task, cache: Path
) -> None:
    nvidia, amd, _ = build(task, "triton", {"twice.py": source}, cache).outputs
    assert nvidia.ok and not amd.ok
    assert said in amd.text


@pytest.mark.parametrize(
    ("arch", "first", "shared"),
    [
        ("sm_80", "cuda:80", 166_912),
        ("sm_89", "cuda:89", 101_376),
        ("sm_100a", "cuda:100", 232_448),
    ],
)
@pytest.mark.usefixtures("everywhere")
def test_the_gpu_that_is_here_comes_first(
    arch: str, first: str, shared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARENA_CUDA_ARCH", arch)
    here, *tried = targets().items()
    assert (here[0], here[1][3]) == (first, shared)
    assert {"hip:gfx942", "cuda:100"} <= {first, *dict(tried)}


@pytest.mark.usefixtures("everywhere")
def test_a_compiler_that_dies_for_a_gpu_that_is_not_here_fails_nobody(
    task: Task, cache: Path
) -> None:
    dies = "    if triton.runtime.driver.active.get_current_target().backend == 'hip':\n"
    dies += "        import os; os._exit(7)\n"
    source = HONEST.replace("    n = x.numel()\n", f"{dies}    n = x.numel()\n")
    nvidia, amd, _ = build(task, "triton", {"twice.py": source}, cache).outputs
    assert nvidia.ok and "left no result" in amd.text
    error = refused(source.replace("'hip'", "'cuda'"), task, cache)
    assert "ended with code 7 and no result" in error.message


@pytest.mark.usefixtures("shared_fork_server")
def test_correctness_is_judged_and_speed_is_skipped(task: Task, cache: Path) -> None:
    report = evaluate(Request(task, {"twice.py": HONEST}, cache))
    verdicts = {result.gate: result.verdict for result in report.gates}
    assert report.verdict is Verdict.PASSED, report.message
    assert verdicts[GateName.CORRECTNESS] is Verdict.PASSED
    assert verdicts[GateName.PERFORMANCE] is Verdict.SKIPPED
    assert verdicts[GateName.GENERALIZATION] is Verdict.PASSED
    wrong = HONEST.replace("* by", "+ by")
    report = evaluate(Request(task, {"twice.py": wrong}, cache))
    assert (report.verdict, report.reason) == (Verdict.FAILED, Reason.WRONG_VALUES)


def test_an_autotuned_kernel_compiles_with_its_first_configuration(task: Task, cache: Path) -> None:
    configs = '@triton.autotune([triton.Config({"BLOCK": b}) for b in (64, 128)], key=["n"])\n'
    source = HONEST.replace("@triton.jit", f"{configs}@triton.jit").replace(", BLOCK=256", "")
    outputs = build(task, "triton", {"twice.py": source}, cache).outputs
    assert all("scale_kernel" in output.resources for output in outputs)


def test_kernel_of_tensors_larger_than_the_memory_of_a_build_compiles(
    task: Task, cache: Path
) -> None:
    (smallest, *_) = task.cases(Split.SEEN)
    large = dataclasses.replace(
        smallest, symbols={**smallest.symbols, "rows": 3 << 20, "cols": 1024}
    )
    operator = dataclasses.replace(task.operator, cases=(large,))
    source = HONEST.replace("    n = x", "    import torch\n\n    torch.empty_like(x)\n    n = x")
    outputs = build(dataclasses.replace(task, operator=operator), "triton",
                    {"twice.py": source}, cache).outputs  # fmt: skip
    assert all("scale_kernel" in output.resources for output in outputs)


def test_an_error_inside_a_kernel_is_told_with_its_line(task: Task, cache: Path) -> None:
    error = refused(HONEST.replace("tl.load(x + at, at < n)", "tl.nothing(x)"), task, cache)
    output = error.outputs[0]
    assert (output.arch, output.ok) == ("cuda:90", False)
    assert (output.diagnostics[0].file, output.diagnostics[0].line) == ("twice.py", 8)
    assert "nothing" in error.message


def test_an_error_of_the_host_function_is_told_with_its_line(task: Task, cache: Path) -> None:
    error = refused(HONEST.replace("n = x.numel()", "n = x.nothing"), task, cache)
    assert error.outputs[0].diagnostics[0].line == 12
    assert "AttributeError" in error.message


def test_a_file_that_is_not_python_says_where(task: Task, cache: Path) -> None:
    error = refused("def twice(x:\n", task, cache)
    assert error.outputs[0].diagnostics[0].line == 1
    assert "SyntaxError" in error.message


def test_too_much_shared_memory_is_a_build_error(task: Task, cache: Path) -> None:
    source = """\
import triton
import triton.language as tl


@triton.jit
def large(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tile = tl.load(x + at[:, None] * BLOCK + at[None, :])
    tl.store(out + at[:, None] * BLOCK + at[None, :], tl.dot(tile, tl.trans(tile)))


def twice(x, out, by):
    large[(1,)](x, out, BLOCK=256, num_warps=8)
"""
    assert "shared memory" in refused(source, task, cache).message


def test_a_host_function_that_launches_nothing_is_refused(task: Task, cache: Path) -> None:
    source = HONEST.replace("    scale_kernel[", "    return\n    scale_kernel[")
    assert "launched no kernel" in refused(source, task, cache).message


def test_a_missing_entry_point_is_told_apart(task: Task, cache: Path) -> None:
    with pytest.raises(SubmissionError, match="no function `twice`") as caught:
        build(task, "triton", {"twice.py": HONEST.replace("def twice", "def thrice")}, cache)
    assert caught.value.reason is Reason.MISSING_ENTRY


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import os; os._exit(0)", "ended with code 0 and no result"),
        ("import os; os.kill(os.getpid(), 9)", "ended with code 137 and no result"),
        (
            "import os, sys; open(sys.argv[2] + '.0', 'w').write('[7]'); os._exit(0)",
            "cannot be read",
        ),
        ("import os, sys; os.symlink('/etc/passwd', sys.argv[2] + '.0'); os._exit(0)", "no result"),
    ],
)
def test_what_a_candidate_does_to_its_compiler_is_its_own_failure(
    line: str, said: str, task: Task, cache: Path
) -> None:
    assert said in refused(f"{line}\n{HONEST}", task, cache).message


def test_a_candidate_sees_neither_tasks_nor_a_writable_source(task: Task, cache: Path) -> None:
    reference = task.operator.folder / "reference.py"
    deeds = f"""\
refusals = []
for path, mode in (({str(reference)!r}, "r"), ({str(cache)!r} + "/x", "w"), (__file__, "a")):
    try:
        open(path, mode)
    except OSError as error:
        refusals.append(error.strerror)
raise RuntimeError(refusals)
"""
    said = refused(deeds + HONEST, task, cache).message
    assert said.count("Permission denied") + said.count("Read-only file system") == 3, said


@pytest.mark.parametrize("leave", [os.mkfifo, os.mkdir, lambda path: path.write_text("[1, 2")])
def test_what_is_no_answer_is_none(leave: Callable[[Path], object], tmp_path: Path) -> None:
    assert read_result(tmp_path / "result.0") is None
    leave(tmp_path / "result.0")
    assert read_result(tmp_path / "result.0") is None


def test_compiling_for_ever_ends_at_the_limit(task: Task, cache: Path) -> None:
    limits = dataclasses.replace(task.operator.limits, seconds=2)
    hurried = dataclasses.replace(task, operator=dataclasses.replace(task.operator, limits=limits))
    assert "longer than 2 s" in refused(f"while True: pass\n{HONEST}", hurried, cache).message


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("import torch\n\n\ndef twice(x, out, by):\n    out.copy_(x * by)\n", "no-kernel"),
        (HONEST + "    out.copy_(torch.mul(x, by))\n", "library-wrapper"),
        (HONEST + "    out.copy_(x.softmax(0))\n", "library-wrapper"),
        (HONEST + "    out.copy_(x @ x)\n", "library-wrapper"),
        (
            "from torch.nn.functional import softmax\n" + HONEST + "    softmax(x)\n",
            "library-wrapper",
        ),
        ("import ctypes\n" + HONEST + "    ctypes.memmove(1, 2, 3)\n", "import"),
        (HONEST + "    triton.cdiv = None\n", "patching"),
    ],
)
def test_wrappers_and_breaches_are_rejected(source: str, rule: str, task: Task) -> None:
    with pytest.raises(Rejected) as caught:
        TRITON.check({"twice.py": "import torch\n" + source}, task)
    assert caught.value.rule == rule


def test_every_baseline_of_ours_reads_clean() -> None:
    root = Path(sys.modules["evaluation"].__path__[0]).parent / "tasks"
    found = sorted(root.glob("*/*/baseline/triton.py"))
    assert len(found) > 90
    for path in found:
        operator = path.parent.parent.name
        task = load_task(root, operator, "triton-to-triton")
        TRITON.check({task.target_file: path.read_text()}, task)


LIBDEVICE = HONEST.replace(
    "import triton.language as tl",
    "import triton.language as tl\nfrom triton.language.extra import libdevice",
).replace("tl.load(x + at, at < n) * by", "libdevice.abs(tl.load(x + at, at < n)) * by")
TIMER = HONEST.replace("* by, at", "* by + 0 * tl.extra.cuda.globaltimer(), at")


@without_gpu
@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "name"),
    [
        (LIBDEVICE, "extra.libdevice.abs"),
        (INLINE, "inline_asm_elementwise"),
        (TIMER, "globaltimer"),
    ],
    ids=["libdevice", "PTX", "timer"],
)
def test_kernel_that_the_interpreter_cannot_run_is_compiled_and_skipped(
    source: str, name: str, task: Task, cache: Path
) -> None:
    report = evaluate(Request(task, {"twice.py": source}, cache, scope="round"))
    compiled, correctness = report.gates[1], report.gates[2]
    assert (compiled.gate, compiled.verdict) == (GateName.COMPILE, Verdict.PASSED)
    assert (correctness.verdict, correctness.reason) == (Verdict.SKIPPED, Reason.NO_DEVICE)
    assert "the interpreter cannot run this" in correctness.message and name in correctness.message
    assert report.verdict is Verdict.SKIPPED


def test_name_that_needs_a_gpu_is_the_same_one_each_time() -> None:
    """Sets of names have another order in each process: it is set by the seed of their hashes."""
    code = "import sys; from evaluation.code.languages import triton"
    code += "; print(triton.not_interpreted({'twice.py': sys.argv[1]}))"
    names = ("current_stream", "default_stream", "set_stream", "Stream")
    text = "import torch\n" + "".join(f"torch.cuda.{name}()\n" for name in names)
    said = {
        subprocess.run(
            [sys.executable, "-c", code, text],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(4)
    }
    assert said == {"there is no GPU here, and `torch.cuda.current_stream` needs one\n"}


def test_kernel_in_a_module_of_pytorch_is_not_interpreted_either() -> None:
    for name in ("torch", "triton"):
        language = languages()[name]
        assert "libdevice.abs" in language.not_run({"twice.py": LIBDEVICE}, "cpu")
        assert not language.not_run({"twice.py": LIBDEVICE}, "gpu")
        unused = LIBDEVICE.replace("libdevice.abs", "tl.abs")
        assert not language.not_run({"twice.py": unused}, "cpu")


@pytest.mark.parametrize(
    "line",
    [
        "    assert x.is_cuda and by > 0\n",
        "    if not x.is_cuda:\n        raise ValueError('on a GPU alone')\n",
        "    stream = torch.cuda.current_stream().cuda_stream\n",
        "    from torch import cuda\n    cuda.synchronize()\n",
    ],
)
def test_host_code_that_needs_a_gpu_is_not_run_on_a_cpu(line: str) -> None:
    begin = HONEST.index("\n", HONEST.index("\ndef twice(")) + 1
    begin = HONEST.index("\n", begin) + 1
    source = f"import torch\n{HONEST[:begin]}{line}{HONEST[begin:]}"
    for name in ("torch", "triton"):
        assert "no GPU here" in languages()[name].not_run({"twice.py": source}, "cpu")
        assert not languages()[name].not_run({"twice.py": source}, "gpu")


def test_host_code_that_asks_for_a_gpu_in_its_own_test_alone_runs_on_a_cpu() -> None:
    tail = "\n\nif __name__ == '__main__':\n    import torch\n    torch.cuda.synchronize()\n"
    choice = "\n\ndef where(x):\n    return 'here' if x.is_cuda else 'there'\n"
    assert not languages()["triton"].not_run({"twice.py": HONEST + choice + tail}, "cpu")


def test_harmless_parts_of_a_source_are_compiled(task: Task, cache: Path) -> None:
    head = "\ufeffimport os, time\nfrom task import input_t, output_t\n"
    tail = "\nif __name__ == '__main__':\n    time.sleep(os.getpid())\n"
    made = build(task, "triton", {"twice.py": head + HONEST + tail}, cache)
    assert made.outputs[0].ok and "scale_kernel" in made.outputs[0].resources
    TRITON.check({"twice.py": head + HONEST + tail}, task)
