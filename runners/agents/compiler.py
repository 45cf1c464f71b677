"""Agent that submits the reference compiled by PyTorch with default options.

Modes that autotune are left out: they tune again in every verdict, for minutes on one core.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from runners.agents import Spec
from runners.agents._parts.each import submit_each

if TYPE_CHECKING:
    from runners.session.session import AgentSession

SPECS = (
    Spec(
        slug="torch-compile",
        title="torch.compile",
        description=(
            "Submits the reference compiled by PyTorch, for dynamic shapes and for static shapes, "
            "and keeps the faster one. For GPUs only: on a CPU, a candidate process must not start "
            "a compiler."
        ),
        tasks=("*/torch-to-torch",),
        kinds=("gpu",),
    ),
)

MODES = {"dynamic shapes": ", dynamic=True", "static shapes": ""}
"""Arguments of `torch.compile` besides the function."""

_SOURCE = """\
{reference}

import torch


def {entry}({parameters}):
    returned = reference({inputs})
    returned = returned if isinstance(returned, tuple) else (returned,)
    for y, output in zip(returned, ({outputs},)):
        output.copy_(y)


{entry} = torch.compile({entry}{mode})
"""


def work(session: AgentSession, settings: Mapping[str, Any]) -> None:
    session.message(f"I compile the reference in {len(MODES)} modes: {', '.join(MODES)}.")
    submit_each(session, compiled(session.read("reference.py"), session.read(session.brief.target)))


def compiled(reference: str, skeleton: str) -> dict[str, str]:
    """Return a source for each mode, by its name.

    The outputs are the parameters of the entry point in `skeleton` that the reference lacks.
    """
    (entry,) = _functions(skeleton).values()
    parameters = _parameters(entry)
    inputs = _parameters(_functions(reference)["reference"])
    words = {
        "reference": reference,
        "entry": entry.name,
        "parameters": ", ".join(parameters),
        "inputs": ", ".join(inputs),
        "outputs": ", ".join(name for name in parameters if name not in inputs),
    }
    return {name: _SOURCE.format(**words, mode=mode) for name, mode in MODES.items()}


def _functions(source: str) -> dict[str, ast.FunctionDef]:
    body = ast.parse(source).body
    return {each.name: each for each in body if isinstance(each, ast.FunctionDef)}


def _parameters(function: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in function.args.args]
