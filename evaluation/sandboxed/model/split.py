"""UNTRUSTED: split models: the weights and settings of each rank, and the sums over all ranks.

Tensor parallelism as in Megatron-LM (arXiv:1909.08053): of a column-parallel linear layer a rank
has a part of the outputs, of a row-parallel one a part of the inputs. The ranks add up the results
of row-parallel layers, so that everything behind them is the same on every rank.

Runs in the judge too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed, nn

from evaluation.errors import TaskError
from evaluation.sandboxed.model.models import ModelData

if TYPE_CHECKING:
    from evaluation.kinds.module.architectures import Parallel


def rank_data(data: ModelData, parallel: Parallel) -> ModelData:
    """Return the model of one rank, of the library's class with divided settings."""
    settings = dict(data.settings)
    for name in parallel.divided:
        settings[name] = int(settings[name]) // parallel.ranks
    return dataclasses.replace(data, settings=settings)


def shard(
    state: Mapping[str, torch.Tensor], parallel: Parallel, rank: int
) -> dict[str, torch.Tensor]:
    """Return the weights of one rank. Raises TaskError for a bias that every rank would add."""
    found = {}
    for name, value in state.items():
        *_, layer, kind = ("", *name.split("."))
        if layer in parallel.column:
            value = value.chunk(parallel.ranks, dim=0)[rank]
        elif layer in parallel.row:
            if kind == "bias":
                raise TaskError(f"{name}: a row-parallel layer must have no bias")
            value = value.chunk(parallel.ranks, dim=1)[rank]
        found[name] = value
    return found


def row_parallel(model: nn.Module, row: Sequence[str]) -> Iterator[nn.Module]:
    """Yield the row-parallel layers of a model or module."""
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in row:
            yield module


def add_over_ranks(model: nn.Module, row: Sequence[str]) -> None:
    """Let each row-parallel layer of this rank's model add its results over all ranks."""

    def after(module: nn.Module, args: Any, result: torch.Tensor) -> torch.Tensor:
        distributed.all_reduce(result)
        return result

    for module in row_parallel(model, row):
        module.register_forward_hook(after)
