"""Summary of the times of compiled baselines."""

from __future__ import annotations

from benchmarks.compiled_baselines import ANY_SHAPE, EAGER, STATIC, summary


def rows(*times: tuple[float, float, float]) -> dict[str, dict[str, float]]:
    names = (EAGER, STATIC, ANY_SHAPE)
    return {f"case-{n}": dict(zip(names, row, strict=True)) for n, row in enumerate(times)}


def test_ratio_is_of_the_fastest_baselines_over_all_cases() -> None:
    found = {
        "layer_norm": rows((400.0, 50.0, 200.0), (400.0, 100.0, 100.0)),
        "matmul": rows((100.0, 120.0, 130.0)),
        "cholesky": {"error": "PyTorch cannot compile it"},
    }
    assert summary(found) == {
        "operators": 2,
        "not_timed": 1,
        "faster": 1,
        "geomean": 1.414,
        "largest": ("layer_norm", 2.0),
    }


def test_nothing_timed_has_no_ratio() -> None:
    assert summary({"cholesky": {"error": "not compiled"}})["geomean"] is None
