"""Host code of a Triton source may use what is listed of PyTorch, of tensors and of Triton."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.code.building.host_code import HostCode
from evaluation.code.building.static_analysis import PURE_MODULES, Source, check_source
from evaluation.errors import Rejected, Unsupported

TESTS = Path(__file__).resolve().parents[3]
KERNEL = """\
import functools, itertools, math, operator
import torch
import triton
import triton.language as tl


@triton.jit
def decoy(out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.exp(tl.load(out + at)).to(tl.float32).sum())


"""


def check(text: str) -> None:
    source = Source("k.py", text)
    check_source(source, PURE_MODULES | {"torch", "triton"})
    HostCode(source).check()


def host(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"{KERNEL}def k(a, b, out):\n    decoy[(1,)](out, BLOCK=16)\n{body}"


LIBRARY_CALLS = [
    "out.addmm_(a, b, beta=0)",
    "a.__matmul__(b)",
    "a.__class__.mm(a, b)",
    'getattr(torch, "m" + "m")(a, b)',
    'getattr(a, "m" + "m")(b)',
    'name = "mm"; getattr(a, name)(b)',
    "c = a; c @= b",
    "a @ b",
    "f = torch.mm; f(a, b)",
    "f = a.mm; f(b)",
    "[torch.mm][0](a, b)",
    "functools.partial(torch.mm, a)(b)",
    'operator.methodcaller("mm", b)(a)',
    "operator.matmul(a, b)",
    "operator.imatmul(out, b)",
    "f = operator.matmul; f(a, b)",
    "torch.Tensor.mm(a, b)",
    "T = torch.Tensor; T.mm(a, b)",
    "type(a).mm(a, b)",
    "torch.ops.aten.mm(a, b)",
    "torch.ops.aten.mm.out(a, b, out=out)",
    "torch._C._VariableFunctions.mm(a, b)",
    "torch.nn.functional.linear(a, b)",
    "torch.nn.Linear(4, 4)(a)",
    "torch.linalg.multi_dot((a, b))",
    "torch.special.softmax(a, 0)",
    'torch.einsum("ij,jk->ik", a, b)',
    "torch.sparse.mm(a, b)",
    "torch.baddbmm(out, a, b)",
    "torch.cdist(a, b)",
    "torch.func.vmap(len)(a)",
    "t = torch; t.mm(a, b)",
    "(t := torch).mm(a, b)",
    "(lambda t: t.mm(a, b))(torch)",
    "for t in (torch,): t.mm(a, b)",
    "list(map(torch.mm, [a], [b]))",
    "list(itertools.starmap(torch.mm, [(a, b)]))",
    "math = a; math.mm(b)",
    "math = a; getattr(math, 'mm')(b)",
    "out.copy_(a.t())",
    "out.set_(a)",
    "out.data = a",
    "out.sub_(b)",
    "out.index_copy_(0, a, b)",
    "a.softmax(0)",
    "a.sum()",
    "a.sort()",
    "a.fmod(b)",
    "decoy.fn(out, 16)",
    "decoy.__wrapped__(out, 16)",
    "triton.runtime.driver.active.get_device_interface().torch.mm(a, b)",
    "triton._C.libtriton.nvidia.cublas.CublasLt(a).matmul(a, b, out)",
    "from triton._C.libtriton import nvidia; nvidia.cublas.CublasLt(a).matmul(a, b, out)",
    "from torch import mm; mm(a, b)",
    "from torch import mm as view; view(a, b)",
    "import torch.nn.functional as F; F.linear(a, b)",
    "from operator import matmul as add; add(a, b)",
]


@pytest.mark.parametrize("line", LIBRARY_CALLS)
def test_library_call_beside_a_decoy_is_rejected_with_its_line(line: str) -> None:
    with pytest.raises(Rejected) as caught:
        check(host("pass", line))
    assert caught.value.message.startswith("k.py:16: ")


@pytest.mark.parametrize(
    "text",
    [
        host("match a:", "    case object(mm=f): f(b)"),
        host("mm(a, b)").replace("import torch\n", "from torch import *\n"),
        host().replace(
            "@triton.jit", '@triton.heuristics({"B": lambda d: torch.mm(d, d)})\n@triton.jit'
        ),
        host().replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr = torch.mm(1, 2)"),
        host("raw[0](a, b)")
        .replace("@triton.jit", "raw = []\n@triton.jit\n@raw.append")
        .replace("tl.exp", "torch.mm"),
        host("raw(a, b)")
        .replace("import triton\n", "import triton\ntriton = {}\n")
        .replace("tl.exp", "torch.mm"),
        host("class A(torch.nn.Linear): pass"),
        host("class A(torch.Tensor): pass", "A.mm(a, b)"),
    ],
)
def test_library_call_by_the_form_of_the_source_is_rejected(text: str) -> None:
    with pytest.raises(Rejected):
        check(text)


def test_refused_call_has_a_message_with_its_replacement() -> None:
    with pytest.raises(Rejected) as caught:
        check(host("out.addmm_(a, b, beta=0)"))
    assert caught.value.rule == "library-wrapper"
    assert (
        "`out.addmm_` may compute outside your kernels; write it as a kernel"
        in caught.value.message
    )
    assert "torch.empty" in caught.value.message


@pytest.mark.parametrize(
    "line",
    [
        "c = torch.empty((4, 4), dtype=torch.float32, device=a.device); c.zero_()",
        "m, n = a.shape; grid = (triton.cdiv(m * n, 16), 1); x = a.stride(0) + a.numel()",
        "x = a.contiguous().view(-1, 4).t().to(torch.float16)",
        "x = math.sqrt(a.shape[-1]) + functools.reduce(operator.mul, a.shape, 1)",
        "x = max(a.size(0), 1) if a.dim() else min(2, 3)",
        "x = getattr(torch, 'float8_e5m2', None)",
        "with torch.cuda.device(a.device): decoy[(1,)](out, BLOCK=16)",
        "x = triton.runtime.driver.active.utils.get_device_properties(0)['multiprocessor_count']",
        "x = torch.cuda.get_device_properties(a.device).multi_processor_count",
        "x = {'a': 1}; x.update(b=2); x.get('a'); list(x.values()).append(3); [1].index(1)",
        "x = isinstance(a, torch.Tensor) and a.dtype in (torch.half, torch.bfloat16)",
    ],
)
def test_host_code_that_allocates_describes_and_launches_is_accepted(line: str) -> None:
    check(host(line))


def test_class_of_autograd_and_typed_host_code_are_accepted() -> None:
    check(
        f"""{KERNEL}class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a)
        out = torch.empty_like(a)
        decoy[lambda meta: (triton.cdiv(a.numel(), meta["BLOCK"]),)](out, BLOCK=16)
        return out


def k(a, b, out):
    Function.apply(a)
"""
    )


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("torch.cuda.synchronize()", "torch.cuda.synchronize"),
        ("s = torch.cuda.Stream()", "torch.cuda.Stream"),
        ("torch.manual_seed(0)", "torch.manual_seed"),
        ("triton.testing.do_bench(k)", "triton.testing.do_bench"),
    ],
)
def test_what_computes_nothing_and_is_not_listed_is_unsupported(line: str, name: str) -> None:
    with pytest.raises(Unsupported, match=f"`{name}` is not supported here"):
        check(host(line))


def test_host_code_of_every_honest_submission_is_accepted() -> None:
    found = sorted((TESTS / "gpu" / "honest").glob("*.triton.py"))
    found += sorted((TESTS.parent / "tasks").glob("*/*/*/*triton.py"))
    assert len(found) > 120
    for path in found:
        HostCode(Source(path.name, path.read_text())).check()
