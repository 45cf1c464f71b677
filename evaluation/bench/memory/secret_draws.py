"""Secret random numbers that no earlier ones reveal."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence

import numpy as np
import torch


def below(bound: int, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Return int64 numbers from 0 to `bound` - 1 on the generator's device.

    PyTorch's generator on a CPU keeps 32 bits of its seed: a process could try them all on what it
    has seen of earlier draws, in some minutes, and know the next. So there the operating system
    draws. A GPU's generator keeps all bits of its seed.
    """
    device = generator.device
    if device.type != "cpu":
        return torch.randint(bound, tuple(shape), generator=generator, device=device)
    words = np.frombuffer(secrets.token_bytes(8 * math.prod(shape)), dtype=np.uint64)
    return torch.from_numpy((words % bound).astype(np.int64)).view(tuple(shape))
