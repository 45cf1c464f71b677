"""Processes of task code: the same values as the code has here, and walls around it."""

from __future__ import annotations

import dataclasses
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from evaluation.bench.memory.verify import acceptable, compare_launch
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.task_host import processes_of
from evaluation.bench.process.task_process import TaskProcess, TaskProcesses
from evaluation.errors import Broken, SubmissionError, TaskError
from evaluation.kinds.kernel.load import load_operator
from evaluation.sandbox.features import isolation_features
from evaluation.tasks.loaded_code import LoadedCode
from evaluation.tasks.operator import Operator
from evaluation.tasks.reference import Reference
from evaluation.tasks.source import Source
from evaluation.tasks.spec import folder_of
from evaluation.tasks.task_code import hosted
from evaluation.tasks.toml_reader import read_text
from evaluation.types import Case, Split

TASKS = Path(__file__).resolve().parents[4] / "tasks"
SCALED = Path(__file__).parents[2] / "operators" / "scaled"
CPU = torch.device("cpu")
KINDS = (
    "rms_norm",
    "softmax",
    "cholesky",
    "dropout",
    "argmax",
    "quantize_rows_int8",
)
"""Operators of each kind of output: by value, by a property, random, and whole numbers."""


@pytest.fixture
def start(
    fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., TaskProcess]]:
    """Return a function that starts the process of an operator, with another text if given."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")  # set by `vmap`, and restored afterwards
    started: list[TaskProcess] = []

    def start(operator: Operator, text: str = "", **options: float) -> TaskProcess:
        text = text or read_text(operator.folder / "reference.py")
        started.append(TaskProcess(fork_server, operator, text, "cpu", **options))
        return started[-1]

    yield start
    for process in started:
        process.close()


def smallest(operator: Operator) -> Case:
    return min(operator.cases, key=operator.elements)


@pytest.mark.parametrize("name", KINDS)
def test_process_draws_what_the_code_draws_here(
    name: str, start: Callable[..., TaskProcess]
) -> None:
    operator = load_operator(folder_of(TASKS, name))
    case, process = smallest(operator), start(operator)
    for family in operator.input_families:
        found = process.draw(case, CPU, family, [1, 2, 1])
        here = operator.code(CPU).draw(case, CPU, family, [1, 2])
        for number, expected in ((0, here[0]), (1, here[1]), (2, here[0])):
            assert found[number].keys() == expected.keys()
            for key, value in expected.items():
                assert torch.equal(found[number][key], value), key


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_process_computes_what_the_code_computes_here(
    name: str, many: bool, start: Callable[..., TaskProcess]
) -> None:
    operator = load_operator(folder_of(TASKS, name))
    case, process, code = smallest(operator), start(operator), operator.code(CPU)
    drawn = code.draw(case, CPU, "nominal", [1, 2, 3])
    inputs = drawn[0]
    if many:
        inputs = {key: torch.stack([each[key] for each in drawn]) for key in inputs}
    there, here = process.launches(case, inputs, many), code.launches(case, inputs, many)
    for number in range(2):  # the outputs are not sent again
        (exact, sizes), (exact_here, sizes_here) = there.outputs(), here.outputs()
        for found, expected in zip(exact, exact_here, strict=True):
            assert found.dtype == expected.dtype and found.shape == expected.shape, number
            assert torch.equal(found, expected) or name == "dropout"
        for found, expected in zip(sizes, sizes_here, strict=True):
            assert found.dtype == expected.dtype and found.shape == expected.shape
    assert process.reduction(case) == code.reduction(case)
    assert process.cost(case) == tuple(code.cost(case)) and process.unit(case) == code.unit(case)


@pytest.mark.parametrize("name", ["cholesky", "dropout"])
def test_output_that_is_not_compared_by_value_is_judged_as_here(
    name: str, start: Callable[..., TaskProcess]
) -> None:
    operator = load_operator(folder_of(TASKS, name))
    case, process = smallest(operator), start(operator)
    with hosted(lambda operator, device: process):
        reference = Reference(operator, case)
        inputs = reference.draw()
        expected = reference.expected(inputs)
        right = {name: each.rounded for name, each in expected.items()}
        assert acceptable(right, expected)
        wrong = {name: torch.full_like(value, 1000) for name, value in right.items()}
        assert not acceptable(wrong, expected)


def test_estimate_ends_where_the_judge_says_so(start: Callable[..., TaskProcess]) -> None:
    operator = load_operator(TASKS / "Normalization" / "l2_normalize")
    case = max(operator.cases, key=operator.elements)
    process, asked = start(operator), []
    (inputs,) = process.draw(case, CPU, "nominal", [1])

    def enough(exact: tuple[torch.Tensor, ...], sizes: tuple[torch.Tensor, ...]) -> bool:
        asked.append(([value.clone() for value in exact], [float(size.max()) for size in sizes]))
        return len(asked) == 2

    (exact,), (sizes,) = process.launches(case, inputs).outputs(1.0, enough)
    assert len(asked) == 2 and asked[0][1] <= asked[1][1] == [float(sizes.max())]
    assert all(torch.equal(exact, found) for (found,), _ in asked)


@pytest.mark.parametrize("name", ["l2_normalize", "cholesky"])
def test_large_launch_is_compared_while_the_code_waits(
    name: str, start: Callable[..., TaskProcess]
) -> None:
    operator = load_operator(folder_of(TASKS, name))
    case = max(operator.cases, key=operator.elements)
    with hosted(lambda operator, device: process):
        process = start(operator)
        reference = Reference(operator, case)
        inputs = reference.draw()
        right = {key: each.rounded for key, each in reference.expected(inputs).items()}
        assert compare_launch(reference, inputs, right, 0x1234, "here") < 1
        (output,) = right.values()
        output.view(-1)[-1] += 1
        with pytest.raises(SubmissionError, match="is wrong"):
            compare_launch(reference, inputs, right, 0x1234, "here")


def test_launches_of_another_case_are_given_again(start: Callable[..., TaskProcess]) -> None:
    operator = load_operator(TASKS / "Math" / "softmax")
    process, code = start(operator), operator.code(CPU)
    cases = sorted(operator.cases, key=operator.elements)[:2]
    given = [code.draw(case, CPU, "nominal", [1])[0] for case in cases]
    launches = [process.launches(*each) for each in zip(cases, given, strict=True)]
    for _ in range(2):
        for each, case, inputs in zip(launches, cases, given, strict=True):
            (found,), (expected,) = each.outputs()[0], code.launches(case, inputs).outputs()[0]
            assert torch.equal(found, expected)


def test_process_stays_for_the_same_text_and_ends_for_another(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    folder = tmp_path / "scaled"
    shutil.copytree(SCALED, folder)
    processes = TaskProcesses(fork_server)
    try:
        first = processes.code(load_operator(folder), CPU)
        assert processes.code(load_operator(folder)) is first
        with (folder / "reference.py").open("a") as file:
            file.write("\nUNIT = 'other'\n")
        operator = load_operator(folder)
        second = processes.code(operator, CPU)
        assert second is not first and first.ended
        assert second.unit(operator.cases[0]) == "other"
    finally:
        processes.close()
    assert second.ended


def test_task_of_this_checkout_is_loaded_and_that_of_another_author_is_not(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    def no_server() -> ForkServer:
        pytest.fail("a task of this checkout needs no process")

    own = load_operator(TASKS / "Math" / "softmax")
    assert isinstance(processes_of(no_server)(own, CPU), LoadedCode)
    texts = ("suite", "title", "repository", "commit", "path", "sha256", "licence", "form")
    source = Source(**dict.fromkeys(texts, "imported"), version=1, score="")
    shutil.copytree(TASKS / "Math" / "softmax", tmp_path / "softmax")
    others = (
        dataclasses.replace(own, source=source),
        load_operator(tmp_path / "softmax"),
        dataclasses.replace(own, folder=TASKS / ".." / "tests"),
    )
    assert not any(other.is_own for other in others)
    for other in others[:2]:
        code = processes_of(lambda: fork_server)(other, CPU)
        assert isinstance(code, TaskProcess)


# What the code cannot do

HOSTILE = """
import os
import torch

found = {}


def tried(name, action):
    try:
        found[name] = str(action())
    except Exception as error:
        found[name] = type(error).__name__


def reach():
    tried("folder", lambda: os.makedirs(FOLDER))
    tried("written", lambda: open(FOLDER + ".txt", "w").write("x"))
    tried("secret", lambda: open(SECRET).read())
    tried("parent", lambda: open(f"/proc/{os.getppid()}/environ").read())
    tried("environment", lambda: "SECRET_OF_THE_JUDGE" in str(dict(os.environ)))
    tried("judge", lambda: os.kill(JUDGE, 0))
    tried("fork", os.fork)
    tried("network", lambda: __import__("socket").socket())


def reference(x, **_):
    reach()
    return x


def cost(case):
    reach()
    raise ValueError(repr(found))
"""


@pytest.mark.skipif(not isolation_features().any, reason="no isolation here")
def test_code_reaches_nothing_of_the_judge(
    start: Callable[..., TaskProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_JUDGE", secrets.token_hex())
    secret = tmp_path / "secret_key"
    secret.write_text("hidden")
    names = f"FOLDER = {str(tmp_path / 'made')!r}\nSECRET = {str(secret)!r}\nJUDGE = {os.getpid()}"
    operator = load_operator(SCALED)
    with pytest.raises(TaskError) as caught:
        start(operator, f"{names}\n{HOSTILE}").cost(operator.cases[0])
    text = str(caught.value)
    assert "hidden" not in text and not (tmp_path / "made").exists()
    assert not (tmp_path / "made.txt").exists()
    for name in ("folder", "written", "secret", "fork", "network"):
        assert f"'{name}': 'PermissionError'" in text or f"'{name}': 'OSError'" in text, text
    assert "'environment': 'False'" in text
    assert "'judge': 'ProcessLookupError'" in text or "'judge': 'PermissionError'" in text


def test_code_learns_sizes_and_no_name_of_a_case(start: Callable[..., TaskProcess]) -> None:
    operator = load_operator(SCALED)
    case = dataclasses.replace(operator.cases[0], name="secret", split=Split.UNSEEN, kind="edge")
    text = read_text(SCALED / "reference.py") + "\n\ndef cost(case):\n    raise ValueError(case)\n"
    with pytest.raises(TaskError) as caught:
        start(operator, text).cost(case)
    assert "secret" not in str(caught.value) and "edge" not in str(caught.value)
    assert all(f"'{name}': {value}" in str(caught.value) for name, value in case.symbols.items())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import os\n1 / 0", "cannot be loaded: line 2: ZeroDivisionError: division by zero"),
        ("def reference(:", "SyntaxError"),
        ("import os\nos._exit(3)", "exit code 3"),
        ("x = 1", "reference: missing"),
    ],
)
def test_code_that_cannot_be_loaded_is_an_error_of_the_task(
    text: str, message: str, start: Callable[..., TaskProcess]
) -> None:
    with pytest.raises(TaskError, match=r"reference\.py: cannot be loaded") as caught:
        start(load_operator(SCALED), text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def cost(case):\n    return 1, float('nan')", "cost: nan is not a number"),
        ("def cost(case):\n    return 1, -1", "cost: -1 is not a number"),
        ("def cost(case):\n    return 1, True", "cost: True is not a number"),
        ("def cost(case):\n    return 1, [1]", r"cost: \[1\] is not a number"),
        ("def cost(case):\n    return 5", "cannot unpack"),
        ("def reduction(case):\n    return 1\n\n\ndef cost(case):\n    return 'ab'", "cost: a is"),
        ("def cost(case):\n    return {'a': 1, 'b': 2}", "cost: a is not a number"),
        ("import os\ndef cost(case):\n    os._exit(1)", "exit code 1"),
        ("def cost(case):\n    while True: pass", "no answer within 5 s"),
    ],
)
def test_number_that_cannot_be_is_an_error_of_the_task(
    body: str, message: str, start: Callable[..., TaskProcess]
) -> None:
    operator = load_operator(SCALED)
    process = start(operator, f"{read_text(SCALED / 'reference.py')}\n\n{body}\n", seconds=5)
    with pytest.raises(TaskError, match=message):
        process.cost(operator.cases[0])
    with pytest.raises(Broken, match="has ended"):
        process.reduction(operator.cases[0])


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("x[:1]", "must have the shape"),
        ("(x, x)", "returned 4 outputs and sizes, not 2"),
        ("x.to(torch.complex64)", "returned complex64, which is no dtype"),
        ("None", "Error"),
    ],
)
def test_output_that_cannot_be_is_an_error_of_the_task(
    returned: str, message: str, start: Callable[..., TaskProcess]
) -> None:
    operator = load_operator(SCALED)
    case = smallest(operator)
    process = start(operator, f"import torch\n\n\ndef reference(x, **_):\n    return {returned}\n")
    (inputs,) = operator.code(CPU).draw(case, CPU, "nominal", [1])
    with pytest.raises(TaskError, match=message):
        process.launches(case, inputs).outputs()


FORGED = """
import torch
from evaluation.sandboxed import task_runner

task_runner._written = lambda values, found: {reply}


def reference(x, **_):
    return x
"""


@pytest.mark.parametrize(
    "reply",
    ["['complex64'] * 2", "['nn'] * 2", "[]", "['float32'] * 9", "7", "[[1]] * 2", "{'a': 1}"],
)
def test_forged_dtype_is_an_error_of_the_task(
    reply: str, start: Callable[..., TaskProcess]
) -> None:
    operator = load_operator(SCALED)
    case = smallest(operator)
    process = start(operator, FORGED.replace("{reply}", reply))
    (inputs,) = operator.code(CPU).draw(case, CPU, "nominal", [1])
    with pytest.raises(TaskError):
        process.launches(case, inputs).outputs()


@pytest.mark.parametrize(
    "reply",
    ["7", "{}", "{'arguments': 1, 'inputs': [], 'constants': {}}",
     "{'arguments': '', 'inputs': [1], 'constants': {}}"],
)  # fmt: skip
def test_forged_call_of_a_module_is_an_error_of_the_task(
    reply: str, start: Callable[..., TaskProcess]
) -> None:
    operator = load_operator(SCALED)
    text = f"{read_text(SCALED / 'reference.py')}\n\nfrom evaluation.tasks import suite_call\n"
    text += f"\nsuite_call.described = lambda *_: {reply}\n"
    with pytest.raises(TaskError, match="must name the inputs"):
        start(operator, text).suite_call(smallest(operator))
