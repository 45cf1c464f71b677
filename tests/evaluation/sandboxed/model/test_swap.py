"""Replacement of modules, and their arguments as JSON."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from evaluation.errors import SubmissionError
from evaluation.sandboxed.model import calls, swap


class Norm(nn.Module):
    def __init__(self, size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.rms_norm(x, self.weight.shape, self.weight, self.eps)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), Norm(8, eps=1e-5))] * 1)
        self.norm = Norm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        out: torch.Tensor = self.norm(x)
        return out


def made() -> tuple[Model, swap.Calls]:
    with swap.recorded([Norm]) as recorded:
        model = Model()
    return model, recorded


def test_swapped_modules_share_weights_and_arguments() -> None:
    model, recorded = made()
    x, weight = torch.randn(2, 8), model.norm.weight
    expected = model(x)

    class Own(nn.Module):
        def __init__(self, size: int, eps: float = 1e-6) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.empty(size))
            self.epsilon = eps

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.rms_norm(x, self.weight.shape, self.weight, self.epsilon)

    paths = swap.swap(model, recorded, Norm, Own)
    assert paths == ["layers.0.1", "norm"]
    assert torch.equal(model(x), expected)
    assert model.norm.weight.data_ptr() == weight.data_ptr()
    assert model.layers[0][1].epsilon == 1e-5  # type: ignore[index, union-attr]


def test_recording_leaves_the_class_as_it_was() -> None:
    before = Norm.__init__
    made()
    assert Norm.__init__ is before


def test_other_state_dict_is_refused() -> None:
    model, recorded = made()

    class Renamed(nn.Module):
        def __init__(self, size: int, eps: float = 1e-6) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.empty(size))

    with pytest.raises(SubmissionError, match="differ in scale, weight"):
        swap.swap(model, recorded, Norm, Renamed)


def test_other_shape_is_refused() -> None:
    model, recorded = made()

    class Longer(nn.Module):
        def __init__(self, size: int, eps: float = 1e-6) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.empty(size + 1))

    with pytest.raises(SubmissionError, match=r"weight has shape \(9,\)"):
        swap.swap(model, recorded, Norm, Longer)


def test_other_parameters_are_refused() -> None:
    class Other(nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    with pytest.raises(SubmissionError, match="__init__` takes"):
        swap.check_interface(Other, Norm)


def test_subclass_of_the_librarys_class_is_refused() -> None:
    class Sub(Norm):
        pass

    with pytest.raises(SubmissionError, match="must not inherit"):
        swap.check_interface(Sub, Norm)


def test_arguments_survive_json() -> None:
    tensors = [torch.randn(2), torch.arange(3)]
    value = ((tensors[0], None, (tensors[1], 2.5)), {"flag": True, "dtype": torch.float32})
    found: list[torch.Tensor] = []
    tree = calls.encoded(value, found)
    slot = {f"input{number}": tensor for number, tensor in enumerate(found)}
    again = calls.decoded(tree, slot)
    assert again[0][0] is tensors[0]
    assert again[0][2][0] is tensors[1]
    assert again[1] == {"flag": True, "dtype": torch.float32}


def test_argument_without_a_json_form_is_refused() -> None:
    with pytest.raises(calls.Unsupported, match="object"):
        calls.encoded(object(), [])
