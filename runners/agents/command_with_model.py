"""Agent that is any program, given in its settings, with a model behind the run's gateway."""

from __future__ import annotations

from runners.agents import Harness, Spec
from runners.agents.command import SPECS as WITHOUT_MODEL
from runners.agents.command import Settings, work

__all__ = ["HARNESS", "SPECS", "Settings", "work"]

HARNESS = Harness("Command with a model", wires=("messages", "responses", "chat-completions"))
SPECS = (
    Spec(
        slug="command-with-model",
        title="Command with a model",
        description=(
            "Runs a program given in its settings, which may call a model. As it comes, it submits"
            " the starter source: make an agent of your own with another command."
        ),
        provider="local",
        model="qwen3-coder",
        settings=WITHOUT_MODEL[0].settings,
    ),
)
