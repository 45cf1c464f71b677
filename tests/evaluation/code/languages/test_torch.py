"""A PyTorch answer is read for breaches, loaded by path, and judged by what it returns."""

from __future__ import annotations

import importlib
import io
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evaluation.code.languages import languages
from evaluation.errors import BuildError, Rejected, SubmissionError, Unsupported
from evaluation.sandboxed.kernels import loader
from evaluation.types import Argument, Launch, Reason

TORCH = languages()["torch"]
LOAD_INLINE = "from torch.utils.cpp_extension import load_inline"
TASK: Any = SimpleNamespace(kind="cpu")  # nothing else of a task matters to what is read and built
ARGUMENTS = (
    Argument("x", "input", "dtype", ("n",)),
    Argument("out", "output", "dtype", ("n",)),
    Argument("by", "scalar", "float32"),
)


def bound(
    body: str, folder: Path, slots: int = 2, parameters: str = "x, by"
) -> tuple[Launch, list[dict[str, Any]]]:
    """`def twice(<parameters>): <body>`, loaded and bound to `slots` slots of four elements."""
    source = f"import torch\n\n\ndef twice({parameters}):\n    {body}\n"
    TORCH.build({"twice.py": source}, TASK, folder)
    memory = [
        {"x": torch.arange(4.0), "out": torch.zeros(4), "n": 4, "by": 2.0} for _ in range(slots)
    ]
    return loader("torch").load(folder, "twice").bind(ARGUMENTS, memory), memory


def test_each_launch_fills_the_outputs_of_its_slot(tmp_path: Path) -> None:
    launch, slots = bound("return x * by", tmp_path, slots=3)
    launch(2, 2)  # the last slot, then round to the first
    assert [float(slot["out"].sum()) for slot in slots] == [12.0, 0.0, 12.0]


@pytest.mark.parametrize(
    ("body", "reason", "said"),
    [
        ("return x[:2] * by", Reason.WRONG_SHAPE, r"expected shape \[4\], got \[2\]"),
        ("return x * by, x", Reason.WRONG_SHAPE, "returned 2 values, expected 1: out"),
        ("return (x * by).half()", Reason.WRONG_DTYPE, "float32.*float16"),
        ("return [1, 2]", Reason.WRONG_DTYPE, "plain torch.Tensor on cpu, got list"),
        ("return torch.nn.Parameter(x * by, False)", Reason.WRONG_DTYPE, "got Parameter"),
        ("return x", Reason.ALIASED_OUTPUT, "memory with an input"),
        ("return x.view(2, 2).view(4)", Reason.ALIASED_OUTPUT, "memory with an input"),
    ],
)
def test_what_is_not_a_result_is_named(
    body: str, reason: Reason, said: str, tmp_path: Path
) -> None:
    launch, _ = bound(body, tmp_path)
    with pytest.raises(SubmissionError, match=said) as caught:
        launch(0, 1)
    assert caught.value.reason is reason


@pytest.mark.parametrize(
    "parameters",
    ["x, by, out", "out, x, by", "x, out, by", "x, by, *, out", "x, by, block=4, out=None"],
)
def test_what_names_its_outputs_fills_them_wherever_they_stand(
    parameters: str, tmp_path: Path
) -> None:
    launch, slots = bound("return torch.mul(x, by, out=out)", tmp_path, 3, parameters)
    launch(2, 2)
    assert [float(slot["out"].sum()) for slot in slots] == [12.0, 0.0, 12.0]


def test_what_takes_any_number_of_inputs_fills_its_outputs_too(tmp_path: Path) -> None:
    launch, slots = bound("out.copy_(given[0] * given[1])", tmp_path, 1, "*given, out")
    launch(0, 1)
    assert slots[0]["out"].tolist() == [0.0, 2.0, 4.0, 6.0]


def test_who_takes_some_outputs_takes_all(tmp_path: Path) -> None:
    arguments = (*ARGUMENTS, Argument("sums", "output", "dtype", ("n",)))
    TORCH.build({"twice.py": "def twice(x, by, out):\n    pass\n"}, TASK, tmp_path)
    said = "takes out, of the outputs out, sums; take all or none"
    with pytest.raises(SubmissionError, match=said) as caught:
        loader("torch").load(tmp_path, "twice").bind(arguments, [{}])
    assert caught.value.reason is Reason.CALL_ERROR


def test_memory_returned_twice_is_aliased(tmp_path: Path) -> None:
    launch, _ = bound("return torch.mul(x, by, out=KEPT)\n\n\nKEPT = torch.empty(4)", tmp_path)
    launch(0, 1)
    with pytest.raises(SubmissionError, match="the call before") as caught:
        launch(1, 1)
    assert caught.value.reason is Reason.ALIASED_OUTPUT


TAKEN_BACK = """\
for kept in KEPT:
        torch._C._set_throw_on_mutable_data_ptr(kept)
    KEPT[:] = [x * by]
    return KEPT[0]


KEPT = []
"""


def test_memory_that_pytorch_takes_back_is_not_aliased(tmp_path: Path) -> None:
    # The later runs of `torch.compile(mode="reduce-overhead")` do so on a GPU.
    launch, slots = bound(TAKEN_BACK, tmp_path, slots=3)
    launch(0, 3)
    assert [float(slot["out"].sum()) for slot in slots] == [12.0, 12.0, 12.0]


def test_compiler_writes_headers_to_a_folder_of_the_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codecache: Any = importlib.import_module("torch._inductor.codecache")
    for name in ("_HEADER_DIR", "_HEADER_LOCK_DIR"):
        monkeypatch.setattr(codecache, name, "/of/the/fork/server")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", f"{tmp_path}/inductor")
    bound("return x * by", tmp_path)
    folder = f"{tmp_path}/inductor/precompiled_headers"
    chosen = codecache._HEADER_DIR, codecache._HEADER_LOCK_DIR
    assert chosen == (folder, f"{folder}/locks")


MODULE = """
import torch


class ModelNew(torch.nn.Module):
    made = 0

    def __init__(self, {parameters}):
        super().__init__()
        ModelNew.made += 1
        {body}

    def forward(self, {inputs}):
        {result}
"""


def of_module(folder: Path, **words: str) -> tuple[Launch, list[dict[str, Any]]]:
    """Bind a module written as MODULE, as `bound` binds a function."""
    defaults = {"parameters": "*nothing", "body": "pass", "inputs": "x, by"}
    source = MODULE.format(**{**defaults, **words})
    TORCH.build({"twice.py": source}, TASK, folder)
    memory = [{"x": torch.arange(4.0), "out": torch.zeros(4), "n": 4, "by": 2.0} for _ in range(2)]
    return loader("torch").load(folder, "twice").bind(ARGUMENTS, memory), memory


def test_a_module_is_made_once_and_called_like_a_function(tmp_path: Path) -> None:
    launch, slots = of_module(tmp_path, result="return x * by + self.made")
    launch(0, 4)
    launch(0, 2)
    assert [slot["out"].tolist() for slot in slots] == [[1.0, 3.0, 5.0, 7.0]] * 2


def test_a_module_fills_the_outputs_that_its_forward_names(tmp_path: Path) -> None:
    launch, slots = of_module(
        tmp_path,
        parameters="by",
        body="self.by = by",
        inputs="x, out",
        result="torch.mul(x, self.by, out=out)",
    )
    launch(0, 2)
    assert [slot["out"].tolist() for slot in slots] == [[0.0, 2.0, 4.0, 6.0]] * 2


def test_what_a_module_is_made_with_it_is_not_called_with(tmp_path: Path) -> None:
    launch, slots = of_module(
        tmp_path,
        parameters="n, by, bias=1.0",
        body='self.register_buffer("rest", torch.full((n,), by + bias))',
        inputs="x",
        result="return x + self.rest",
    )
    launch(0, 1)
    assert slots[0]["out"].tolist() == [3.0, 4.0, 5.0, 6.0]


def test_a_module_that_asks_for_what_there_is_not_says_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match="asks for `features`; it may ask for n, by") as told:
        of_module(tmp_path, parameters="features", result="return x")
    assert told.value.reason is Reason.CALL_ERROR


@pytest.mark.parametrize(
    ("result", "reason", "said"),
    [
        ("return x", Reason.ALIASED_OUTPUT, "memory with an input"),
        ("return self.kept[:4]", Reason.ALIASED_OUTPUT, "the call before"),
        ("return self.weight", Reason.WRONG_DTYPE, "got Parameter"),
        ("return (x * by).double()", Reason.WRONG_DTYPE, "float32.*float64"),
        ("return (x * by, x)", Reason.WRONG_SHAPE, "returned 2 values, expected 1: out"),
    ],
)
def test_what_a_module_returns_is_looked_at_like_what_a_function_does(
    result: str, reason: Reason, said: str, tmp_path: Path
) -> None:
    body = "self.kept = torch.ones(8); self.weight = torch.nn.Parameter(torch.ones(4))"
    launch, _ = of_module(tmp_path, body=body, result=result)
    with pytest.raises(SubmissionError, match=said) as caught:
        launch(0, 2)
    assert caught.value.reason is reason


def test_the_function_named_for_the_operator_comes_first(tmp_path: Path) -> None:
    function = "return x\n\n\ndef twice(x, by):\n    return x * by"
    launch, slots = of_module(tmp_path, result=function)
    launch(0, 1)
    assert slots[0]["out"].tolist() == [0.0, 2.0, 4.0, 6.0]


def test_a_file_without_the_entry_point_says_so(tmp_path: Path) -> None:
    TORCH.build({"twice.py": "def thrice(x, by):\n    return x\n"}, TASK, tmp_path)
    with pytest.raises(SubmissionError, match=r"no function `twice` in twice\.py, nor") as caught:
        loader("torch").load(tmp_path, "twice")
    assert caught.value.reason is Reason.MISSING_ENTRY


def test_a_syntax_error_is_told_with_its_line_and_nothing_is_run(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    source = f"open({str(witness)!r}, 'w')\ndef twice(x:\n"
    with pytest.raises(BuildError) as caught:
        TORCH.build({"twice.py": source}, TASK, tmp_path)
    (output,) = caught.value.outputs
    assert (output.ok, output.diagnostics[0].file, output.diagnostics[0].line) == (
        False,
        "twice.py",
        2,
    )
    assert not witness.exists()


@pytest.mark.parametrize(
    ("source", "rule", "line"),
    [
        ("import torch\nimport ctypes\nctypes.memmove(1, 2, 3)", "import", 2),
        ("from os import system\nsystem('id')", "import", 1),
        ("from torch.utils.cpp_extension import load", "import", 1),
        (f"{LOAD_INLINE}\nimport torch\ntorch.utils.cpp_extension.include_paths()", "call", 3),
        (f'{LOAD_INLINE}\nCPP = """\nint f() {{ return fork(); }}\n"""', "system-call", 3),
        (f"{LOAD_INLINE}\nCU = 'void f() {{ cudaDeviceReset(); }}'", "device-state", 2),
        (f"{LOAD_INLINE}\nCU = 'void f() {{ cudaIpcGetMemHandle(0, 0); }}'", "foreign-memory", 2),
        ("\n\nexec('1')", "call", 3),
        ("x = __import__('os')", "call", 1),
        ("import torch\ntorch._inductor.config.trace.enabled = True", "call", 2),
        ("import torch\ntorch.compiler = torch.compile", "patching", 2),
        ("import torch\ntorch.compile.run = print", "patching", 2),
        ("import torch as t\nt.ops.load_library('x.so')", "call", 2),
        ("import torch\ntorch.Tensor.copy_ = print", "patching", 2),
        ("import math as m\nm.pi += 1", "patching", 2),
        ("import torch\nsetattr(torch, 'allclose', print)", "patching", 2),
        ("import torch\ntorch.nn.__dict__.clear()", "introspection", 2),
        ("().__class__.__mro__", "introspection", 1),
    ],
)
def test_breaches_are_rejected_with_rule_and_line(source: str, rule: str, line: int) -> None:
    with pytest.raises(Rejected, match=rf"^twice\.py:{line}: ") as caught:
        TORCH.check({"twice.py": source}, TASK)
    assert caught.value.rule == rule


def test_plain_pytorch_is_not_rejected() -> None:
    source = (
        "from __future__ import annotations\nimport math\nimport torch\nfrom torch import nn\n"
        "import torch.nn.functional as F\n\n\ndef twice(x, by):\n    out = torch.empty_like(x)\n"
        "    out[0] = math.pi\n    x.grad = None\n    return F.relu(out) @ nn.Identity()(x)\n"
    )
    TORCH.check({"twice.py": source}, TASK)


def test_on_a_gpu_pytorch_may_compile() -> None:
    source = (
        "import torch\n\n\n@torch.compile(dynamic=True)\ndef twice(x, by):\n    return x * by\n"
    )
    on_gpu: Any = SimpleNamespace(kind="gpu")
    TORCH.check({"twice.py": source}, on_gpu)
    for more, error in (("torch.compile.run = print", Rejected), (LOAD_INLINE, Unsupported)):
        with pytest.raises(error):
            TORCH.check({"twice.py": f"{source}\n\n{more}\n"}, on_gpu)
    with pytest.raises(Unsupported, match=r"^twice\.py:4: `torch\.compile` is not supported here"):
        TORCH.check({"twice.py": source}, TASK)


def test_an_extension_on_pytorchs_own_headers_is_not_rejected() -> None:
    source = (
        f'{LOAD_INLINE} as build\n\nCPP = """\n#include <torch/extension.h>\n'
        "#include <ATen/cuda/CUDAContext.h>\n"
        'at::Tensor twice(at::Tensor x) { return at::mul(x, 2); }\n"""\n'
        'ours = build("ours", CPP, functions=["twice"])\ntwice = ours.twice\n'
    )
    TORCH.check({"twice.py": source}, TASK)


COUNTS = """
import torch

compiled = []


def backend(graph, inputs):
    compiled.append(len(inputs))
    return graph.forward


def twice(x, by):
    return x * by


answer = torch.compile(twice, dynamic=False, backend=backend)


def twice(x, by):
    return answer(x, by), len(compiled)
"""


def test_a_compiler_is_not_given_up_on_after_eight_shapes(tmp_path: Path) -> None:
    from torch._dynamo import config

    limits = ("recompile_limit", "accumulated_recompile_limit")
    # monkeypatch would delete what is no attribute of the module, and hide it from later tests.
    with config.patch({name: getattr(config, name) for name in limits}):
        TORCH.build({"twice.py": COUNTS}, TASK, tmp_path)
        answer = loader("torch").load(tmp_path, "twice").function
        assert [answer(torch.zeros(n), 2.0)[1] for n in range(2, 22)] == list(range(1, 21))


def test_progress_of_a_compiler_has_no_thread(tmp_path: Path) -> None:
    """It would wake at the end of each suspension, and wait for the core of the launches."""
    tqdm = pytest.importorskip("tqdm").tqdm
    TORCH.build({"twice.py": COUNTS}, TASK, tmp_path)
    interval = tqdm.monitor_interval
    try:
        loader("torch").load(tmp_path, "twice")
        assert list(tqdm(range(3), file=io.StringIO())) == [0, 1, 2]
    finally:
        tqdm.monitor_interval = interval
    assert "tqdm_monitor" not in [thread.name for thread in threading.enumerate()]
