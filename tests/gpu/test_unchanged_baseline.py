"""The unchanged baseline reads 1 on a GPU, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.bench.timing.test_unchanged_baseline import assert_reads_one


@pytest.mark.gpu
@pytest.mark.slow
def test_unchanged_baseline_reads_one(cache: Path) -> None:
    assert_reads_one("cuda-to-cuda", cache, 0.003)
