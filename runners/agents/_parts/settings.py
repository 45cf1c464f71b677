"""Settings of an agent read into their model, with a reason in one line where they do not fit."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)


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
