"""UNTRUSTED: the process group of the ranks of a model that is split over several processes.

All ranks of a candidate are in one sandbox: they share its namespaces, its user and its scratch
folder. Over the loopback interface of that sandbox they reach one another and nothing else.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import torch
from torch import distributed

STORE = "process-group"
"""A file in the scratch folder, by which the ranks find one another."""
MAX_COLLECTIVE_SECONDS = 600.0
"""Longer than the judge waits for a reply, so that it is the judge who ends a rank that waits."""


def join(rank: int, ranks: int, device: torch.device) -> None:
    """Join the process group of the ranks, and add up once, so that libraries connect now."""
    distributed.init_process_group(
        "gloo" if device.type == "cpu" else "nccl",
        init_method=(Path.cwd() / STORE).as_uri(),
        rank=rank,
        world_size=ranks,
        timeout=datetime.timedelta(seconds=MAX_COLLECTIVE_SECONDS),
    )
    distributed.all_reduce(torch.ones(1, device=device))
