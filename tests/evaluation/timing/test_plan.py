"""Plans: windows of a GPU and of a processor, in rounds and in final verdicts."""

from __future__ import annotations

from evaluation.timing.plan import launches_for, plan_for


def test_plan_of_a_gpu_has_shorter_windows_and_a_final_plan_is_longest() -> None:
    plans = {
        (kind, final): plan_for(kind, final) for kind in ("cpu", "gpu") for final in (False, True)
    }
    for kind in ("cpu", "gpu"):
        final, quick = plans[kind, True], plans[kind, False]
        assert final.every_regime and not quick.every_regime
        assert final.window_seconds >= quick.window_seconds and final.narrow < quick.narrow
    assert plans["gpu", True].window_seconds < plans["cpu", True].window_seconds


def test_launches_for_fit_the_faster_process_and_bound_the_slower_one() -> None:
    assert launches_for([1_000], 0.006) == 6_000
    assert launches_for([1_000, 3_000], 0.006) == 6_000
    assert launches_for([1_000, 60_000], 0.006) == 400, "the slower one's takes 24 ms"
