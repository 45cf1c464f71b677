"""The agent that leaves it to PyTorch's compiler: the reference, compiled as it offers by itself.

Its modes that tune are left out: they tune anew in every verdict, for minutes on one core.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from runners.agents import Spec
from runners.agents._each import try_each

if TYPE_CHECKING:
    from runners.desk import Desk

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

WAYS = {
    "any shape": "reference, dynamic=True",
    "shapes as they come": "reference",
}
"""What `torch.compile` is given."""


def work(desk: Desk, settings: Mapping[str, Any]) -> None:
    desk.say(f"I compile the reference in {len(WAYS)} ways: {', '.join(WAYS)}.")
    try_each(desk, compiled(desk.read("reference.py"), PurePath(desk.brief.target).stem))


def compiled(reference: str, entry: str) -> dict[str, str]:
    """A source for each way to compile a reference, by the way's name."""
    return {
        name: f"{reference}\n\nimport torch\n\n{entry} = torch.compile({given})\n"
        for name, given in WAYS.items()
    }
