"""Tests of the predicted speed of a model with several kernels at once."""

from __future__ import annotations

import pytest

from arena.leaderboard.production.architectures import Module, predicted
from evaluation.types import Interval
from tests.arena.production import interval


def module(name: str) -> Module:
    return Module(len(name), name, name, "block", f"library.{name}")


def test_composed_kernels_add_their_savings() -> None:
    gains = [(module("norm"), Interval(1.25, 1.2, 1.3)), (module("mlp"), Interval(2.0, 1.9, 2.1))]
    places = {"norm": frozenset({"model.layers.*.norm"}), "mlp": frozenset({"model.layers.*.mlp"})}
    found = predicted(gains, lambda each: places[each.operator])
    assert found is not None and not found.nested
    assert found.speedup == pytest.approx(1 / (1 - 0.2 - 0.5))


def test_composed_kernels_of_nested_modules_count_where_they_save_most() -> None:
    names = {"layer": "model.layers.*", "norm": "model.layers.*.norm", "mlp": "model.layers.*.mlp"}

    def chosen(layer: float) -> set[str]:
        speedups = {"layer": layer, "norm": 1.1, "mlp": 1.2}
        gains = [(module(n), Interval(s, s * 0.99, s * 1.01)) for n, s in speedups.items()]
        found = predicted(gains, lambda each: frozenset({names[each.operator]}))
        assert found is not None
        assert {m.operator for m in found.nested} | {m.operator for m in found.modules} == {*names}
        return {each.operator for each in found.modules}

    assert chosen(1.3) == {"norm", "mlp"}
    assert chosen(1.5) == {"layer"}


def test_composed_kernels_that_do_not_gain_are_no_prediction() -> None:
    unsure = Interval(**interval(1.01))
    assert predicted([(module("norm"), unsure)], lambda _: frozenset()) is None
    assert predicted([], lambda _: frozenset()) is None


def test_composed_modules_of_unknown_places_do_not_add_up() -> None:
    gains = [(module(n), Interval(**interval(s))) for n, s in (("norm", 1.2), ("mlp", 1.3))]
    found = predicted(gains, lambda _: frozenset())
    assert found is not None and [each.operator for each in found.modules] == ["mlp"]
