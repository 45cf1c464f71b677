"""UNTRUSTED: the ranks of a model that is split over several processes, and their process group.

All ranks of a candidate are in one sandbox: they share its namespaces, its user and its scratch
folder. Over the loopback interface of that sandbox they reach one another and nothing else.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import distributed

from evaluation.sandbox.launch import exit_code

STORE = "process-group"
"""A file in the scratch folder, by which the ranks find one another."""
MAX_COLLECTIVE_SECONDS = 600.0
"""Longer than the judge waits for a reply, so that it is the judge who ends a rank that waits."""


def fork_each(channels: Sequence[int]) -> int:
    """Fork a process for each rank, and return its channel there.

    This process itself waits for the first rank that ends, and ends as that one did. The kernel
    then ends the others.
    """
    for channel in channels:
        if os.fork() == 0:
            return channel
    os.closerange(3, 1 << 16)
    os._exit(exit_code(os.wait()[1]))


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
