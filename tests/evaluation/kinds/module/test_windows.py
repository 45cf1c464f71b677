"""Windows of processes that only pretend to run a model."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import pytest

from evaluation.bench.timing.estimates import Block
from evaluation.device_kind import CPU, GPU
from evaluation.kinds.module import windows
from evaluation.kinds.module.session import PhaseMemory
from evaluation.kinds.module.windows import ModelWindows
from evaluation.sandboxed.model.phases import Regime


class Memory:
    """Memory of a launch, which nothing reads."""

    slots = 1

    def write(self, slot: int, inputs: Any) -> None: ...

    def read_all(self, slot: int, where: str, launches: int) -> list[dict[str, Any]]:
        return [{}]


class OfOneRank(Memory, PhaseMemory):
    """The same, of a model that is not split."""

    def __init__(self) -> None:
        self.slots = 5


class Process:
    """A process in which each launch takes a millisecond, and a window half of one more."""

    refusal = ""
    peak_gpu_bytes = 3 << 30

    def __init__(self, captures: bool = True) -> None:
        self.captures = captures
        self.captured: list[int] = []
        self.ran: list[int] = []

    def prepare(self, first: int, count: int) -> None: ...

    def require_idle(self) -> None: ...

    def capture(self, first: int, count: int) -> bool:
        self.captured.append(count)
        return self.captures

    def run(self, first: int, count: int, replay: bool = False, sampler: Any = None) -> int:
        self.ran.append(count)
        return 500_000 + 1_000_000 * count


def model_windows(regime: Regime, slots: int, process: Process) -> ModelWindows:
    drawn = iter(range(1000))
    session: Any = SimpleNamespace(
        kind=GPU,
        bind=lambda mode, memory, regime, repeatable: process,
        draw=lambda phase: {"x": next(drawn)},
    )
    memory: Any = Memory()
    memory.slots = slots
    return ModelWindows(session, "free", "forward", memory, regime)


def test_free_module_stores_its_outputs_before_it_is_compiled() -> None:
    """Otherwise the module would be compiled in place of the outputs that it stored."""
    bound: list[Regime] = []

    def bind(mode: str, memory: Any, regime: Regime, repeatable: bool) -> Any:
        bound.append(regime)
        return Process()

    session: Any = SimpleNamespace(bind=bind, draw=lambda phase: {})
    memory: Any = Memory()
    ModelWindows(session, "free", "forward", memory, Regime.COMPILE)
    assert bound == [Regime.EAGER, Regime.COMPILE]


@pytest.mark.parametrize(("kind", "candidate_us", "baseline_us"), [(GPU, 2, 4), (CPU, 4, 6)])
def test_time_of_handing_over_a_gpu_is_left_out(
    kind: str, candidate_us: int, baseline_us: int
) -> None:
    def side(nanoseconds: float) -> Any:
        return SimpleNamespace(
            session=SimpleNamespace(kind=kind),
            regime=Regime.EAGER,
            prefills=[],
            memory=SimpleNamespace(slots=1),
            launch_ns=nanoseconds,
            start=lambda launches: None,
            window=lambda: nanoseconds,
            overhead=lambda: 2000.0,
            memory_bytes=None,
        )

    timing = windows.measure(side(4000.0), side(6000.0), windows.PLANS[CPU])
    assert timing.candidate_us == pytest.approx(candidate_us)
    assert timing.baseline_us == pytest.approx(baseline_us)
    assert timing.speedup.speedup == pytest.approx(baseline_us / candidate_us)


def test_overhead_is_at_most_half_of_the_shortest_time() -> None:
    blocks = [Block(1000.0, 3000.0), Block(800.0, 3000.0)]
    found = windows.without_overhead(blocks, [900.0, 700.0, 100.0])
    assert [(each.candidate, each.baseline) for each in found] == [(600, 2600), (400, 2600)]
    assert windows.without_overhead(blocks, []) == blocks


@pytest.mark.parametrize(("ratios", "spread"), [([1.0, 1.1, 1.21], math.log(1.1)), ([2.0], 0.0)])
def test_spread_is_that_of_the_blocks_log_ratios(ratios: list[float], spread: float) -> None:
    blocks = [Block(1000.0, 1000.0 * ratio) for ratio in ratios]
    timing = windows.timing_of(blocks, windows.PLANS[CPU])
    assert timing.spread == pytest.approx(spread) and timing.blocks == len(ratios)


@pytest.mark.parametrize(("seconds", "slots", "launches"), [(0.01, 16, 7), (1, 16, 16), (0, 16, 1)])
def test_window_has_as_many_launches_as_take_the_planned_time(
    seconds: float, slots: int, launches: int
) -> None:
    plan = dataclasses.replace(
        windows.PLANS[GPU], window_seconds=seconds, min_blocks=1, max_blocks=1
    )
    processes = Process(), Process()
    candidate, baseline = (model_windows(Regime.GRAPH, slots, each) for each in processes)
    timing = windows.measure(candidate, baseline, plan)
    for process in processes:
        assert process.captured == [1, launches]
    assert processes[0].ran[-2:] == [launches] * 2
    assert timing.candidate_us == pytest.approx(1000)  # without half a millisecond of each window


def test_timing_has_the_memory_of_both_models_before_a_capture() -> None:
    class Growing(Process):
        def capture(self, first: int, count: int) -> bool:
            self.peak_gpu_bytes = 9 << 30
            return super().capture(first, count)

    candidate, baseline = Growing(), Growing()
    baseline.peak_gpu_bytes = 2 << 30
    pair = (model_windows(Regime.GRAPH, 4, process) for process in (candidate, baseline))

    timing = windows.measure(*pair, dataclasses.replace(windows.PLANS[GPU], max_blocks=1))

    assert candidate.peak_gpu_bytes == baseline.peak_gpu_bytes == 9 << 30
    assert (timing.memory_bytes, timing.baseline_memory_bytes) == (3 << 30, 2 << 30)


def test_window_runs_each_launch_on_inputs_of_its_own() -> None:
    found = model_windows(Regime.EAGER, 4, Process())
    found.start(4)
    written: dict[int, Any] = {}
    found.memory.write = lambda slot, inputs: written.update({slot: inputs})  # type: ignore[method-assign]
    found.window()
    assert [written[slot]["x"] for slot in range(4)] == [1, 2, 3, 4]


@pytest.mark.parametrize("in_time", [[], [2]])
def test_launch_under_way_when_its_inputs_arrived_is_not_checked(
    in_time: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    late = SimpleNamespace(
        launches=[1, 2, 3],
        moments=[],
        write_decoys=lambda: None,
        inject_missing=lambda: None,
        in_time=lambda: in_time,
    )
    monkeypatch.setattr(windows, "LateInputs", lambda *_: late)
    found = model_windows(Regime.EAGER, 5, Process())
    found.memory = OfOneRank()
    found.start(5)
    found.memory.read_all = lambda slot, *_: read.append(slot) or [{}]  # type: ignore[method-assign, func-returns-value]
    for _ in range(60):
        found.window()
    assert set(read) == {0, 4, *in_time}
