"""Models that are built from data, and their drawn weights."""

from __future__ import annotations

import dataclasses
import json
import warnings

import pytest
import torch
from torch import nn

from evaluation.device_kind import GPU
from evaluation.kinds.module.architectures import architectures
from evaluation.sandboxed.model import models, split
from evaluation.sandboxed.model.models import ModelData


class Scaled(nn.Module):
    """A module with a parameter of equal values that no library's class initialises."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((64,), 3.0))


def test_equal_values_are_drawn_around_their_value_without_a_warning() -> None:
    scaled = Scaled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            models.draw_weights(scaled, 1)
    finally:
        torch.set_warn_always(False)
    assert scaled.scale.unique().numel() == 64
    assert abs(float(scaled.scale.detach().mean()) - 3.0) < models.NORM_SPREAD


@pytest.mark.parametrize("name", architectures())
def test_model_of_a_process_has_the_parameters_of_the_judges_on_a_gpu(name: str) -> None:
    architecture = architectures()[name]
    if why := architecture.missing():
        pytest.skip(why)
    data = ModelData.of(architecture, architecture.sizes[GPU])
    if architecture.parallel:
        data = split.rank_data(data, architecture.parallel)
    own = parameters(models.build(data, "meta"))
    sent = ModelData(**json.loads(json.dumps(dataclasses.asdict(data))))
    assert parameters(models.build(sent, "meta")) == own
    exact = parameters(models.build(dataclasses.replace(data, dtype="float64"), "meta"))
    assert {key: shape for key, (shape, _) in exact.items()} == {
        key: shape for key, (shape, _) in own.items()
    }


def parameters(model: nn.Module) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {key: (value.shape, value.dtype) for key, value in model.state_dict().items()}
