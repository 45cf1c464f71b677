"""Facts about its regimes in a verdict."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evaluation.bench.timing.disturbance import Disturbance
from evaluation.device_kind import CPU, GPU
from evaluation.errors import Inconclusive, SubmissionError
from evaluation.kinds.module import times
from evaluation.kinds.module.details import Engaged
from evaluation.kinds.module.limits import Ratios
from evaluation.kinds.module.times import engaged_of
from evaluation.kinds.module.windows import Checked
from evaluation.sandboxed.model.phases import Regime


def windows(mode: str, captured: bool = True, refusal: str = "") -> Any:
    return SimpleNamespace(mode=mode, captured=captured, refusal=refusal, seconds=1.234)


def graphs(*captured: tuple[bool, bool]) -> dict[str, dict[Regime, Engaged]]:
    """Return phases whose candidate and baseline were captured or not."""
    return {
        str(number): {Regime.GRAPH: engaged_of(windows("candidate", ours), windows("library", ref))}
        for number, (ours, ref) in enumerate(captured)
    }


def test_regime_has_the_reason_why_a_launch_was_not_captured() -> None:
    refusal = "Traceback\n  File\nRuntimeError: " + "x" * 1000 + "\n"
    engaged = engaged_of(windows("candidate", False, refusal), windows("library"))
    assert engaged.captured == {"candidate": False, "library": True}
    assert set(engaged.refusal) == {"candidate"}
    assert engaged.refusal["candidate"].startswith("RuntimeError: xxx")
    assert len(engaged.refusal["candidate"]) == times.MAX_REFUSAL
    assert engaged.seconds == {"candidate": 1.23, "library": 1.23}


def test_refusal_is_the_line_of_the_error_and_not_the_advice_below_it() -> None:
    error = "torch.AcceleratorError: CUDA error: operation not permitted when stream is capturing"
    text = f"Traceback\n  File\n{error}\nSearch for `cudaError`.\nCompile with `TORCH_USE_CUDA_DSA`"
    assert engaged_of(windows("library", False, text)).refusal == {"library": error}
    assert engaged_of(windows("library", False, "no cache")).refusal == {"library": "no cache"}
    assert engaged_of(windows("library", False, "\n")).refusal == {"library": ""}


def exactness(error: float, regime: Regime) -> Any:
    errors = [torch.full((48,), error) for _ in range(4)]
    checked = {0: Checked(errors=errors)}
    return SimpleNamespace(
        phase="forward", regime=regime, checked=checked, mode="candidate", late_errors=[]
    )


def test_candidate_must_be_as_exact_as_the_baseline_in_eager_in_every_regime() -> None:
    """A compiled baseline that rounds less often is no measure for a candidate that is eager."""
    pairs = {
        Regime.EAGER: (exactness(1.0, Regime.EAGER), exactness(1.0, Regime.EAGER)),
        Regime.COMPILE: (exactness(1.0, Regime.EAGER), exactness(0.7, Regime.COMPILE)),
        Regime.GRAPH: (exactness(1.5, Regime.GRAPH), exactness(1.6, Regime.GRAPH)),
    }
    for regime in (Regime.EAGER, Regime.COMPILE):
        times._check_budget(pairs, regime, Ratios(1.3, 1.3))
    with pytest.raises(SubmissionError, match=r"graph: the model's error is at least 1\.50 times"):
        times._check_budget(pairs, Regime.GRAPH, Ratios(1.3, 1.3))


@pytest.mark.parametrize(
    ("captured", "ours", "baseline"),
    [
        ([(True, True), (True, True)], True, True),
        ([(True, True), (False, True)], False, True),
        ([(True, True), (False, False)], True, True),
        ([(False, False)], None, None),
        ([], None, None),
    ],
)
def test_candidate_is_captured_where_it_is_in_each_phase_that_the_baseline_is(
    captured: list[tuple[bool, bool]], ours: bool | None, baseline: bool | None
) -> None:
    found = graphs(*captured)
    assert times._all_captured(found, "candidate") is ours
    assert times._all_captured(found, "library") is baseline


def timing(candidate_us: float, baseline_us: float) -> Any:
    return SimpleNamespace(candidate_us=candidate_us, baseline_us=baseline_us)


def test_regimes_close_to_the_best_of_either_side_are_measured_in_full() -> None:
    found = {
        Regime.EAGER: timing(300, 290),
        Regime.COMPILE: timing(119, 200),
        Regime.GRAPH: timing(100, 150),
    }
    assert times.close_to_best(found) == [Regime.COMPILE, Regime.GRAPH]
    found[Regime.EAGER] = timing(300, 170)
    assert times.close_to_best(found) == list(Regime)


def test_module_is_measured_again_where_its_model_does_not_run_in_its_regime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def module(regime: Regime) -> Any:
        return SimpleNamespace(regime=regime)

    asked: list[Any] = []

    def measure_module(session: Any, task: Any, phase: str, regimes: Any) -> Any:
        asked.append((task.name, phase))
        return module(*regimes)

    monkeypatch.setattr(times.module_times, "measure_module", measure_module)
    session: Any = SimpleNamespace(tasks=[SimpleNamespace(name="norm")])
    modules = {"norm": {"prefill": module(Regime.GRAPH), "decode": module(Regime.GRAPH)}}
    one = timing(1, 1)
    times._measure_again(
        session, modules, {"prefill": {Regime.GRAPH: one}, "decode": {Regime.EAGER: one}}
    )
    assert asked == [("norm", "decode")]
    assert {phase: each.regime for phase, each in modules["norm"].items()} == {
        "prefill": Regime.GRAPH,
        "decode": Regime.EAGER,
    }


def test_models_are_measured_on_an_idle_processor_alone() -> None:
    def busy(tolerant: bool) -> Disturbance:
        ticks = iter(range(100))
        return Disturbance(1.0, lambda: (0, next(ticks)), lambda seconds: None, tolerant)

    with pytest.raises(Inconclusive, match="processor busy 100 % of the time"):
        times.wait_until_quiet(CPU, busy(tolerant=False))
    times.wait_until_quiet(CPU, busy(tolerant=True))
    times.wait_until_quiet(GPU, busy(tolerant=False))
