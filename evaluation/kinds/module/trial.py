"""One candidate on its way through the gates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evaluation.bench.timing.disturbance import Disturbance
from evaluation.kinds.module.architectures import Architecture
from evaluation.sandboxed.model.phases import Extent

if TYPE_CHECKING:
    from evaluation.kinds.module.session import LiveSession


@dataclass
class Trial:
    """One candidate on its way through the gates."""

    architecture: Architecture
    session: LiveSession
    extent: Extent
    disturbance: Disturbance
