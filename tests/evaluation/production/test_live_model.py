"""Launches of a live model, and the module that takes no time in place of the library's."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evaluation.errors import SubmissionError
from evaluation.production.phases import Regime
from evaluation.sandboxed.live_model import FreeModule, LiveModel
from evaluation.types import Reason


@pytest.fixture
def model() -> Iterator[LiveModel]:
    """A live model of one linear layer."""
    made = object.__new__(LiveModel)
    made.model = torch.nn.Linear(4, 3)
    made.data = SimpleNamespace(options={}, cache="static")  # type: ignore[assignment]
    made._compiled, made._decode = {}, None
    yield made
    torch.use_deterministic_algorithms(False)


def test_launches_are_repeatable_where_bits_are_compared_and_nowhere_else(model: LiveModel) -> None:
    slot: dict[str, Any] = {"phase": "forward", "regime": "eager", "inputs": ["input"]}
    for repeatable in (True, False):
        model.bind([], [{**slot, "repeatable": repeatable}])
        assert torch.are_deterministic_algorithms_enabled() is repeatable


@pytest.mark.parametrize("cache", ["static", "dynamic", "internal"])
def test_decode_is_captured_where_its_cache_stays_in_place(model: LiveModel, cache: str) -> None:
    model.data = SimpleNamespace(cache=cache)  # type: ignore[assignment]
    model.check_capturable()  # no decode is bound
    model._decode = SimpleNamespace()  # type: ignore[assignment]
    if cache == "static":
        model.check_capturable()
        return
    with pytest.raises(SubmissionError, match=f"a new cache \\({cache}\\)") as raised:
        model.check_capturable()
    assert raised.value.reason is Reason.CALL_ERROR


@pytest.mark.parametrize(
    ("cache", "name", "dynamic"),
    [("dynamic", "decode", None), ("static", "decode", False), ("dynamic", "prefill", False)],
)
def test_sizes_are_compiled_as_variable_where_a_cache_grows(
    model: LiveModel,
    cache: str,
    name: str,
    dynamic: bool | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[bool | None] = []
    monkeypatch.setattr(torch, "compile", lambda function, dynamic: found.append(dynamic))
    model.data = SimpleNamespace(cache=cache)  # type: ignore[assignment]
    model.compiler_cache = SimpleNamespace(fill=lambda: None)  # type: ignore[assignment]
    model._in_regime(print, Regime.COMPILE, name)
    assert found == [dynamic]


def test_free_module_returns_its_first_output_of_a_shape() -> None:
    linear = torch.nn.Linear(4, 3)
    free = FreeModule(linear)
    first = free(torch.ones(2, 4))
    assert torch.equal(first, linear(torch.ones(2, 4)))
    assert free(torch.zeros(2, 4)) is first
    assert free(torch.zeros(5, 4)).shape == (5, 3)


def test_free_module_has_the_attributes_of_the_original() -> None:
    linear = torch.nn.Linear(4, 3)
    free = FreeModule(linear)
    assert free.weight is linear.weight and free.in_features == 4
    with pytest.raises(AttributeError, match="nothing"):
        _ = free.nothing
