"""The code of a task in its process, with tensors on a GPU: the same values as in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from evaluation.bench.memory import cuda_ipc, cuda_runtime
from evaluation.bench.memory.verify import acceptable
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.task_process import TaskProcess
from evaluation.device_kind import GPU
from evaluation.errors import TaskError
from evaluation.kinds.kernel.load import load_operator
from evaluation.tasks.loaded_code import LoadedCode, run_here
from evaluation.tasks.operator import Operator
from evaluation.tasks.reference import Reference
from evaluation.tasks.spec import folder_of
from evaluation.tasks.task_code import hosted
from evaluation.tasks.toml_reader import read_text
from evaluation.types import Case
from tests.gpu.submissions import TASKS

pytestmark = pytest.mark.gpu

NAMES = ("rms_norm", "softmax", "argmax", "cholesky")


@pytest.fixture(params=NAMES)
def operator(request: pytest.FixtureRequest) -> Operator:
    return load_operator(folder_of(TASKS, request.param), GPU)


@pytest.fixture
def process(operator: Operator, fork_server: ForkServer) -> Iterator[TaskProcess]:
    text = read_text(operator.folder / "reference.py")
    started = TaskProcess(fork_server, operator, text, GPU)
    yield started
    started.close()


@pytest.fixture
def here(operator: Operator) -> LoadedCode:
    """Return the code in this process, which computes what the judge computed before."""
    run_here()
    return LoadedCode.of(operator)


def smallest(operator: Operator) -> Case:
    return min(operator.cases, key=operator.elements)


@pytest.mark.parametrize("many", [False, True])
def test_process_computes_what_the_code_computes_here(
    many: bool, operator: Operator, process: TaskProcess, here: LoadedCode
) -> None:
    case = smallest(operator)
    drawn = process.draw(case, cuda_runtime.DEVICE, "nominal", [1, 2, 3])
    drawn_here = here.draw(case, cuda_runtime.DEVICE, "nominal", [1, 2, 3])
    for found, expected in zip(drawn, drawn_here, strict=True):
        for name, value in expected.items():
            assert found[name].is_cuda and torch.equal(found[name], value), name
    inputs = drawn[0]
    if many:
        inputs = {name: torch.stack([each[name] for each in drawn]) for name in inputs}
    exact, sizes = process.launches(case, inputs, many).outputs()
    exact_here, sizes_here = here.launches(case, inputs, many).outputs()
    for found, expected in zip((*exact, *sizes), (*exact_here, *sizes_here), strict=True):
        assert found.is_cuda and found.dtype == expected.dtype and found.shape == expected.shape
    for found, expected in zip(exact, exact_here, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12, equal_nan=True)


def test_outputs_are_judged_on_the_gpu_that_then_is_idle(
    operator: Operator, process: TaskProcess
) -> None:
    case = max(operator.cases, key=operator.elements)
    with hosted(lambda operator, device: process):
        reference = Reference(operator, case, cuda_runtime.DEVICE)
        inputs = reference.draw()
        expected = reference.expected(inputs)
        right = {name: each.rounded for name, each in expected.items()}
        assert all(value.is_cuda for value in right.values())
        assert acceptable(right, expected)
        assert not acceptable({n: torch.ones_like(t) for n, t in right.items()}, expected)
    assert cuda_ipc.gpu_is_idle()


def test_failure_on_the_gpu_is_an_error_of_the_task(fork_server: ForkServer) -> None:
    operator = load_operator(TASKS / "Math" / "softmax", GPU)
    text = read_text(operator.folder / "reference.py")
    text += "\n\ndef reference(**_):\n    import torch\n    return torch.ones(1 << 50)\n"
    process, case = TaskProcess(fork_server, operator, text, GPU), smallest(operator)
    try:
        (inputs,) = process.draw(case, cuda_runtime.DEVICE, "nominal", [1])
        with pytest.raises(TaskError, match=r"reference\.py"):
            process.launches(case, inputs).outputs()
        assert process.ended
    finally:
        process.close()
