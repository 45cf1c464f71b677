"""Extensions that a suite's module asks for late, and switches that a source sets."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils import cpp_extension

from evaluation.code.languages import languages
from evaluation.code.languages.torch import without_switches
from evaluation.errors import Rejected
from evaluation.kinds.kernel.gates.integrity import judge
from evaluation.kinds.kernel.load import load_task
from evaluation.sandboxed import build_torch
from evaluation.tasks.spec import Task
from tests.evaluation.conftest import OPERATORS

CALL = {"arguments": "([3], {})", "inputs": [{"shape": [2, 3], "dtype": "float32"}, 0.5]}
HEAD = "import torch\nfrom torch.utils.cpp_extension import load_inline\n\n"
IN_INIT = """\
class ModelNew(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.made = load_inline("a", size)
"""
IN_FORWARD = """\
class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()

    def forward(self, x, factor):
        return load_inline("a", x.shape[1], factor)
"""
CRASH = "        __import__('os')._exit(9)\n"
WITH_A_GPU = """\
if torch.cuda.is_available():
    made = load_inline("a", 3)
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file with the calls of `load_inline`, which build nothing."""
    found = tmp_path / "asked"
    found.touch()

    def building_in(load_inline: object, folder: Path) -> object:
        def build(*arguments: Any) -> None:
            with found.open("a") as file:
                print(arguments, file=file)
            (folder / "a.so").touch()

        return build

    monkeypatch.setattr(build_torch, "building_in", building_in)
    monkeypatch.setattr(cpp_extension, "load_inline", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return found


def build(text: str, folder: Path, call: object = CALL) -> int:
    (folder / "source.py").write_text(HEAD + text)
    (folder / "call.json").write_text(json.dumps(call))
    return build_torch.main(folder / "source.py", folder, folder / "call.json")


@pytest.mark.parametrize(
    ("text", "arguments"),
    [(IN_INIT, ("a", 3)), (IN_FORWARD, ("a", 3, 0.5)), (WITH_A_GPU, ("a", 3))],
)
def test_extension_of_a_suites_module_is_built_wherever_it_asks(
    asked: Path, tmp_path: Path, text: str, arguments: tuple[Any, ...]
) -> None:
    assert build(text, tmp_path) == 0
    assert asked.read_text() == f"{arguments}\n"


def test_module_of_another_task_is_not_made(asked: Path, tmp_path: Path) -> None:
    assert build(IN_INIT, tmp_path, None) == 0
    assert asked.read_text() == ""


def test_extension_that_crashes_on_a_processor_is_built(asked: Path, tmp_path: Path) -> None:
    crashing = IN_FORWARD.replace("return load_inline", "made = load_inline")
    assert build(crashing + CRASH, tmp_path) == 0
    assert asked.read_text() == "('a', 3, 0.5)\n"


def test_refused_source_of_a_module_fails_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def building_in(load_inline: object, folder: Path) -> object:
        def build(*arguments: Any) -> None:
            raise build_torch.RefusedSource("load_inline: no such type")

        return build

    monkeypatch.setattr(build_torch, "building_in", building_in)
    monkeypatch.setattr(cpp_extension, "load_inline", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert build(IN_INIT, tmp_path) == build_torch.REFUSED


SWITCHED = """\
import torch
import torch.backends.cudnn as cudnn

torch.backends.cudnn.benchmark = True; x = 1
cudnn.workspace_limit = \\
    768 * 1024
y = 2
"""


def test_switches_are_left_out_and_lines_keep_their_numbers() -> None:
    text, ignored = without_switches("k.py", SWITCHED)
    assert text.splitlines() == [
        *SWITCHED.splitlines()[:3],
        "pass; x = 1",
        "pass",
        "",
        "y = 2",
    ]
    assert ignored == [
        "k.py:4: torch.backends.cudnn.benchmark = True",
        "k.py:5: cudnn.workspace_limit = \\ 768 * 1024",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.backends.cudnn.benchmark = bool(1)\n",
        "import torch\ntorch.backends = 5\n",
        "import torch\ntorch.nn.functional.relu = 5\n",
    ],
)
def test_other_changes_of_modules_are_rejected(text: str) -> None:
    task = load_task(OPERATORS, "scaled", "torch-to-torch", "cpu")
    with pytest.raises(Rejected, match="is not yours to change"):
        languages()["torch"].check({task.target_file: text}, task)


def test_ignored_switches_are_named_in_the_verdict() -> None:
    task: Task = load_task(OPERATORS, "scaled", "torch-to-torch", "cpu")
    files = {task.target_file: SWITCHED}
    trial: Any = SimpleNamespace(files=files, task=task, language=languages()["torch"])
    result = judge(trial)
    assert "torch.backends.cudnn.benchmark = True" in result.message
    assert len(result.detail["ignored"]) == 2


@pytest.mark.parametrize(
    "text",
    [
        "import torch.utils.cpp_extension\nf = torch.utils.cpp_extension.load_inline\n",
        "from torch.utils import cpp_extension\nf = cpp_extension.load_inline\n",
        "import torch.utils.cpp_extension as c\nf = c.load_inline\n",
    ],
)
def test_cpp_extension_may_be_imported_as_a_module(text: str) -> None:
    task = load_task(OPERATORS, "scaled", "torch-to-torch", "cpu")
    languages()["torch"].check({task.target_file: text}, task)


def test_other_functions_of_cpp_extension_are_rejected() -> None:
    task = load_task(OPERATORS, "scaled", "torch-to-torch", "cpu")
    text = "from torch.utils import cpp_extension\ncpp_extension.include_paths()  # load_inline\n"
    with pytest.raises(Rejected):
        languages()["torch"].check({task.target_file: text}, task)
