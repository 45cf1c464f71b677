"""Agent that submits the reference compiled by PyTorch with default options.

Modes that autotune are left out: they tune again in every verdict, for minutes on one core.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from runners.agents import Spec
from runners.agents._each import try_each

if TYPE_CHECKING:
    from runners.agent.session import AgentSession

SPECS = (
    Spec(
        slug="torch-compile",
        title="torch.compile",
        description=(
            "Hands in the reference, compiled by PyTorch for any shape and for the shapes that "
            "come, and keeps the faster one. For GPUs alone: elsewhere no contestant may start a "
            "compiler."
        ),
        tasks=("*/torch-to-torch",),
        kinds=("gpu",),
    ),
)

WAYS = {"any shape": ", dynamic=True", "shapes as they come": ""}
"""Arguments of `torch.compile` besides the function."""

_ANSWER = """\
{reference}

import torch


def {entry}({parameters}):
    returned = reference({given})
    returned = returned if isinstance(returned, tuple) else (returned,)
    for y, output in zip(returned, ({outputs},)):
        output.copy_(y)


{entry} = torch.compile({entry}{way})
"""


def work(session: AgentSession, settings: Mapping[str, Any]) -> None:
    session.say(f"I compile the reference in {len(WAYS)} ways: {', '.join(WAYS)}.")
    try_each(session, compiled(session.read("reference.py"), session.read(session.brief.target)))


def compiled(reference: str, skeleton: str) -> dict[str, str]:
    """Return a source for each way to compile a reference, by the way's name.

    Its outputs are the parameters of the entry point in `skeleton` that the reference does not
    take.
    """
    (entry,) = _functions(skeleton).values()
    taken, given = _parameters(entry), _parameters(_functions(reference)["reference"])
    words = {
        "reference": reference,
        "entry": entry.name,
        "parameters": ", ".join(taken),
        "given": ", ".join(given),
        "outputs": ", ".join(name for name in taken if name not in given),
    }
    return {name: _ANSWER.format(**words, way=way) for name, way in WAYS.items()}


def _functions(source: str) -> dict[str, ast.FunctionDef]:
    body = ast.parse(source).body
    return {each.name: each for each in body if isinstance(each, ast.FunctionDef)}


def _parameters(function: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in function.args.args]
