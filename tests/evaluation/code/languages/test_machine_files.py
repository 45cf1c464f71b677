"""Builds see the toolchain and their own sources, and no other file of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.code.building import extensions
from evaluation.code.languages import languages
from evaluation.errors import BuildError
from evaluation.kinds.kernel.load import load_task
from evaluation.sandbox.features import isolation_features
from evaluation.tasks.spec import Task
from tests.conftest import skip_or_fail
from tests.evaluation.code.languages.machine import needs_nvcc
from tests.evaluation.conftest import OPERATORS

SYSTEM_FILES = (
    "/etc/passwd",
    "/etc/group",
    "/etc/hostname",
    "/proc/self/environ",
    "/proc/self/cmdline",
    "/proc/version",
    "/sys/fs/cgroup/cgroup.controllers",
)
UNREADABLE = ("ermission denied", "No such file", "file not found", "cannot open source file")
"""The words of compilers and assemblers for a file that they cannot read."""
GPU_OPERATORS = Path(__file__).parent / "operators"


@pytest.fixture(autouse=True)
def isolated() -> None:
    if not isolation_features().landlock:
        pytest.skip("this machine has no Landlock")


@pytest.fixture(params=[*SYSTEM_FILES, "home", "another build", "task"])
def file(request: pytest.FixtureRequest, cache: Path) -> Path:
    """Return a file that no build may read."""
    if request.param in SYSTEM_FILES:
        path = Path(request.param)
        if not path.exists():
            pytest.skip(f"this machine has no {path}")
        return path
    if request.param == "task":
        return OPERATORS / "scaled" / "task.toml"
    if request.param == "home":
        return next(path for path in sorted(Path.home().iterdir()) if path.is_file())
    other = cache / "builds" / "another" / "kernel.cpp"
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_text("int of_another;\n")
    return other


def refused(language: str, source: str, task: Task, folder: Path) -> str:
    """Return all that a failed build says. The static reading of the source is left out."""
    with pytest.raises(BuildError) as caught:
        languages()[language].build({task.target_file: source}, task, folder)
    return caught.value.message + "".join(output.text for output in caught.value.outputs)


def kernel(task: Task, language: str) -> str:
    return task.operator.baseline(language)


@pytest.mark.parametrize("line", ['#include "{}"', 'asm(".incbin \\"{}\\"");'])
def test_cpp_build_cannot_read_the_machine(
    file: Path, line: str, cache: Path, tmp_path: Path
) -> None:
    task = load_task(OPERATORS, "scaled", "cpp-to-cpp")
    source = f"{line.format(file)}\n{kernel(task, 'cpp')}"
    text = refused("cpp", source, task, tmp_path)
    assert any(words in text for words in UNREADABLE)


@needs_nvcc
@pytest.mark.parametrize("line", ['#include "{}"', '__asm__(".incbin \\"{}\\"");'])
def test_cuda_build_cannot_read_the_machine(
    file: Path, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARENA_CUDA_ARCH", "sm_90a")
    task = load_task(GPU_OPERATORS, "shifted", "torch-to-cuda")
    text = refused("cuda", f"{line.format(file)}\n{kernel(task, 'cuda')}", task, tmp_path)
    assert any(words in text for words in UNREADABLE)


OPENING = """\
def opened(path):
    try:
        return open(path).read(1)
    except OSError:
        return ""

if opened({path!r}):
    print("the file was read")
"""


def test_extension_build_cannot_read_the_machine(file: Path, tmp_path: Path) -> None:
    if lacks := extensions.lacking():
        skip_or_fail(lacks)
    source = tmp_path / "artefact" / "scaled.py"
    source.parent.mkdir()
    source.write_text("# load_inline\n" + OPENING.format(path=str(file)))
    output = extensions.build(source, 60)
    assert output.ok
    assert "the file was read" not in output.text


def test_triton_build_cannot_read_the_machine(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARENA_CUDA_ARCH", "sm_90a")
    task = load_task(GPU_OPERATORS, "twice", "torch-to-triton")
    source = OPENING.format(path=str(file)) + "\ndef twice(x, out, by):\n    pass\n"
    assert "the file was read" not in refused("triton", source, task, tmp_path)
