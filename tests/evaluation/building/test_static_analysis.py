"""The static reading says of any source why it is refused, in a time that grows with its length."""

from __future__ import annotations

import ast
import time

import pytest

from evaluation.building.static_analysis import MAX_PARSES, PURE_MODULES, Source, check_source
from evaluation.errors import Rejected

ALLOWED = PURE_MODULES | {"torch"}
LONG = ".a" * 700


def refused(text: str) -> Rejected:
    with pytest.raises(Rejected) as caught:
        check_source(Source("k.py", text), ALLOWED)
    return caught.value


@pytest.mark.parametrize(
    ("line", "rule", "end"),
    [
        (f"torch{LONG}.sys", "introspection", ".a.sys` is not for kernels"),
        (f"torch{LONG} = 1", "patching", ".a.a` is not yours to change"),
        (f"setattr(torch{LONG}, 'a', 1)", "patching", ".a.a` is not yours to change"),
        (f"torch.hub{LONG}", "call", ".a.` has no place in a kernel"),
        (f"import torch.hub{LONG}", "import", "these may: "),
        ("getattr(torch, '__di' + 'ct__')", "introspection", "`__dict__` has no place in a kernel"),
        ("torch.x.__traceback__", "introspection", "`__traceback__` has no place in a kernel"),
        ("torch.nn.Module.forward = 1", "patching", "`torch.nn.Module.forward` is not yours"),
    ],
)
def test_what_is_refused_is_quoted_however_long_it_is(line: str, rule: str, end: str) -> None:
    error = refused(f"import torch\n{line}\n")
    assert error.rule == rule and end in error.message
    assert error.message.startswith("k.py:2: ") and len(error.message) < 500


@pytest.mark.parametrize("deep", ["-" * 50_000 + "1", "x" + ".a" * 100_000, "1" + "+1" * 50_000])
def test_what_is_nested_too_deeply_to_be_read_is_refused(deep: str) -> None:
    assert refused(f"import os\nx = {deep}\n").rule == "nesting"


@pytest.mark.parametrize("line", ["setattr()", "setattr(*x)", "setattr(name=1)"])
def test_a_call_that_lacks_its_arguments_is_left_to_python(line: str) -> None:
    check_source(Source("k.py", f"import torch\n{line}\n"), ALLOWED)


@pytest.mark.parametrize("chain", [".a" * 2000, ".sys" * 2000])
def test_long_chains_are_gone_along_once(chain: str) -> None:
    text = "\n".join(["def f(x):", *[f"    x{chain}"] * 100])
    began = time.process_time()
    check_source(Source("k.py", text), ALLOWED)
    assert time.process_time() - began < 10


def test_a_long_path_begins_as_it_is_spelt() -> None:
    source = Source("k.py", f"import torch as t\nt.matmul{'.__call__' * 100}(1, 2)\n")
    (path,) = {source.path(node.func) for node in source.nodes if hasattr(node, "func")}
    assert path.startswith("torch.matmul.__call__.") and len(path) == 200


def test_parsing_that_another_thread_disturbed_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    parse, disturbed = ast.parse, [True, True]

    def raises(text: str) -> ast.Module:
        if disturbed:
            disturbed.pop()
            raise SystemError("AST constructor recursion depth mismatch (before=36, after=34)")
        return parse(text)

    monkeypatch.setattr(ast, "parse", raises)
    assert Source("solution.py", "import math").modules
    disturbed[:] = [True] * MAX_PARSES
    with pytest.raises(SystemError):
        Source("solution.py", "import math")
