"""Windows of processes that only pretend to run a model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from evaluation.production.phases import Regime
from evaluation.production.windows import ModelWindows


class Memory:
    """Memory of a launch, which nothing reads."""

    def write(self, slot: int, inputs: Any) -> None: ...

    def read(self, slot: int, where: str) -> dict[str, Any]:
        return {}


def test_free_module_stores_its_outputs_before_it_is_compiled() -> None:
    """Otherwise the module would be compiled in place of the outputs that it stored."""
    bound: list[Regime] = []

    def bind(mode: str, memory: Any, regime: Regime, repeatable: bool) -> Any:
        bound.append(regime)
        return SimpleNamespace(
            prepare=lambda first, count: None,
            run=lambda first, count, replay=False: 1000,
            require_idle=lambda: None,
        )

    session: Any = SimpleNamespace(bind=bind, draw=lambda phase: {})
    memory: Any = Memory()
    ModelWindows(session, "free", "forward", memory, Regime.COMPILE)
    assert bound == [Regime.EAGER, Regime.COMPILE]
