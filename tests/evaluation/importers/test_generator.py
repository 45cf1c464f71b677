"""Tests of input generators without devices and seeds."""

from __future__ import annotations

import ast

import pytest

from evaluation.importers.sandboxed.drawing import drawn_source
from evaluation.importers.sandboxed.forms.generator import Generator
from evaluation.importers.sandboxed.observation import Unsupported

GENERATOR = '''\
def generate_input(size: int, seed: int):
    """Draws a tensor, and makes room for the result."""
    assert size > 0
    device = "cuda"
    gen = torch.Generator(device=device)
    gen.manual_seed(seed)
    torch.manual_seed(seed)
    x = torch.empty(size, device=device, dtype=torch.float16)
    x.uniform_(0, 1, generator=gen)
    scale = torch.rand(1, generator=gen, device="cuda").item()
    parts = {}
    parts["low"] = torch.randn((size, 2), device=x.device).cuda()
    out = torch.zeros(size, device="cuda").to("cuda")
    return x * scale, parts, out.contiguous()
'''


def generator(text: str = GENERATOR) -> Generator:
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    return Generator(function, {"size": "size_"})


def test_expression_gets_the_statements_that_it_needs():
    assert generator().lines(["x * scale"]) == [
        "assert size_ > 0",
        "x = torch.empty(size_, dtype=torch.float16)",
        "x.uniform_(0, 1)",
        "scale = torch.rand(1)",
        "return [x * scale]",
    ]


def test_item_of_a_dictionary_gets_its_assignment():
    assert generator().lines(['parts["low"]'])[1:] == [
        "parts = {}",
        "parts['low'] = torch.randn((size_, 2))",
        'return [parts["low"]]',
    ]


def test_returned_expressions_are_without_devices():
    found = generator()
    assert [ast.unparse(node) for node in found.returned] == [
        "x * scale",
        "parts",
        "out.contiguous()",
    ]
    assert found.is_tuple
    assert found.lines(["out"])[1:] == ["out = torch.zeros(size_)", "return [out]"]


def test_filled_tensors_are_drawn_by_the_judge():
    assert drawn_source(["x.uniform_(-1, 1)", "y = x.uniform_()"]) == [
        "x.copy_(draw.uniform(x.shape, -1, 1))",
        "y = x.copy_(draw.uniform(x.shape, 0.0, 1.0))",
    ]
    with pytest.raises(Unsupported, match="without both bounds"):
        drawn_source(["x.uniform_(2)"])


def test_tensor_changed_by_another_statement_keeps_that_statement():
    found = generator(
        "def generate_input(size):\n"
        "    x = torch.zeros(size)\n"
        "    y = x.add_(1)\n"
        "    for at in range(size):\n"
        "        fill(x, at)\n"
        "    z = torch.ones(size)\n"
        "    return x, y, z\n"
    )
    assert found.lines(["x"])[1:-1] == [
        "y = x.add_(1)",
        "for at in range(size_):",
        "    fill(x, at)",
    ]
    assert found.lines(["z"]) == ["z = torch.ones(size_)", "return [z]"]


def test_functions_inside_a_generator_have_their_own_returns():
    found = generator(
        "def generate_input(size):\n"
        "    def twice(x):\n"
        "        return 2 * x\n"
        "    return twice(torch.rand(size))\n"
    )
    assert found.lines(["twice(torch.rand(size_))"])[:2] == ["def twice(x):", "    return 2 * x"]


def test_generator_with_several_returns_is_refused():
    with pytest.raises(Unsupported, match="does not return once, at its end"):
        generator("def generate_input(n):\n    if n:\n        return 1\n    return 2\n")
