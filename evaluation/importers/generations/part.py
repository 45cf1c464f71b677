"""Parts of a collection, as layouts read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Part:
    """Some generations of a collection, which share a layout.

    `model`, `hardware` and `baseline` are those of each generation that has no others. `options`
    are those of the layout.
    """

    layout: str
    suite: str
    model: str = ""
    hardware: str = ""
    baseline: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
