"""Launches of a live model, and the module that takes no time in place of the library's."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evaluation.errors import SubmissionError
from evaluation.sandboxed.model.live_model import FreeModule, LiveModel
from evaluation.sandboxed.model.phases import Regime
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


@pytest.mark.parametrize(("name", "graphs"), [("decode", 2), ("prefill", 5)])
def test_decode_whose_cache_counts_positions_is_compiled_twice(
    model: LiveModel, name: str, graphs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A static cache of a sliding window counts in Python, so each step has another number."""
    made: list[Any] = []
    compiler = torch.compile

    def backend(graph: Any, inputs: Any) -> Any:
        made.append(graph)
        return graph.forward

    monkeypatch.setattr(
        torch, "compile", lambda f, dynamic: compiler(f, dynamic=dynamic, backend=backend)
    )
    model.compiler_cache = SimpleNamespace(fill=lambda: None)  # type: ignore[assignment]
    cache = SimpleNamespace(position=7)
    step = model._in_regime(lambda token, cache: token + cache.position, Regime.COMPILE, name)
    for _ in range(5):
        cache.position += 1
        assert step(torch.zeros(1), cache) == cache.position
    assert len(made) == graphs


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
