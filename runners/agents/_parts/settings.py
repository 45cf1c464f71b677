"""Settings that several agents have, and the reading of an agent's settings into their model."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

Model = TypeVar("Model", bound=BaseModel)
MaxTurns = Annotated[int, Field(ge=0, description="Limit on turns of the model; 0 for none.")]
ExtraPrompt = Annotated[str, Field(description="Text after the instruction that all agents get.")]
Mcp = Annotated[bool, Field(description="Offer check and profile as tools beside the commands.")]


def checked(model: type[Model], settings: Mapping[str, Any]) -> Model:
    """Return the settings as a `model`, or end the process with what is wrong with them.

    The last line of an agent's stderr is the reason of its run.
    """
    try:
        return model.model_validate(dict(settings))
    except ValidationError as error:
        problems = []
        for each in error.errors():
            name = ".".join(map(str, each["loc"]))
            text = each["msg"].removeprefix("Value error, ")
            problems.append(f"{name}: {text}" if name else text)
        sys.exit(f"The agent's settings do not fit: {'; '.join(problems)}.")
