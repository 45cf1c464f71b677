"""PyTorch implementations made of an operator's own reference.

They are the baselines of tracks from PyTorch, and test the judge on `torch-to-torch`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from evaluation.device_kind import CPU, GPU
from evaluation.tasks.operator import Example, Operator
from evaluation.tasks.toml_reader import read_text
from evaluation.types import Reason

EAGER = "{name} = reference"
COMPILED = "import torch\n\n{name} = torch.compile(reference, dynamic=False)"
"""For the shapes of each case, since code for any shape is up to five times as slow."""
_WIDE = """\
import torch


def {name}(*given):
    returned = reference(*[widened(value) for value in given])
    outputs = returned if isinstance(returned, tuple) else (returned,)
    dtypes = {dtypes}
    return tuple(y.to(dtype, copy=True) for y, dtype in zip(outputs, dtypes))


def widened(value):
    return value.float() if torch.is_tensor(value) and value.is_floating_point() else value
"""
_INTO = """

returning = {name}


def {name}(*given, {outputs}):
    for y, output in zip(returning(*given), ({outputs},)):
        output.copy_(y)
"""
_COMPILED = _WIDE + _INTO + "\n\n{name} = torch.compile({name}, dynamic=True)"
_HONEST = {
    "wide": (_WIDE, "the reference in float32; in half precision it rounds on the way"),
    "filled": (_WIDE + _INTO, "that, into the outputs it is given"),
}
COMPILED_NAME = "compiled"
HONEST = {
    CPU: _HONEST,
    GPU: {**_HONEST, COMPILED_NAME: (_COMPILED, "that, compiled for any shape")},
}
"""Honest implementations by device kind: only on a GPU may a candidate start a compiler."""
SAME_VALUES = ("filled",)
"""Those that compute what `wide` does, and give it back in another way."""
_CHANGED = """\
def {{name}}(*given):
    returned = reference(*given)
    outputs = returned if isinstance(returned, tuple) else (returned,)
    return tuple(changed(y) for y in outputs)


def changed(y):
    {change}
"""
MUTANTS = {
    "too_large": (
        _CHANGED.format(change="return (y + y / 2 + 1).to(y.dtype)"),
        "every output is half as large again, and one more",
    ),
    "one_short": (
        _CHANGED.format(change="y = y.contiguous()\n    y.view(-1)[-1:] = 0\n    return y"),
        "the last element of every output is left out",
    ),
}


def source(operator: Operator, ending: str) -> str:
    """Return a source file: the reference, then the code that makes it an implementation."""
    reference = read_text(operator.folder / "reference.py")
    given = [argument.dtype for argument in operator.arguments if argument.role != "output"]
    names = [argument.dtype for argument in operator.outputs]
    outputs = ", ".join(argument.name for argument in operator.outputs)
    own = f"given[{given.index('dtype')}].dtype" if "dtype" in names else ""
    dtypes = ", ".join(own if name == "dtype" else f"torch.{name}" for name in names)
    words = {"name": operator.name, "outputs": outputs, "dtypes": f"({dtypes},)"}
    return f"{reference}\n\n{ending.format(**words)}\n"


def honest(operator: Operator, kind: str) -> tuple[Example, ...]:
    """Return correct implementations of `operator` in PyTorch for a device kind."""
    return tuple(
        dataclasses.replace(
            example,
            same_values=example.name in SAME_VALUES,
            compiled=example.name == COMPILED_NAME,
        )
        for example in _examples(operator, HONEST[kind])
    )


def mutants(operator: Operator) -> tuple[Example, ...]:
    """Return wrong implementations of `operator` in PyTorch."""
    return _examples(operator, MUTANTS, Reason.WRONG_VALUES)


def _examples(
    operator: Operator, endings: Mapping[str, tuple[str, str]], expect: Reason | None = None
) -> tuple[Example, ...]:
    return tuple(
        Example(name, "torch", source(operator, ending), note, expect)
        for name, (ending, note) in endings.items()
    )
