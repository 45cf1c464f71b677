"""What a judge is given of its worker's environment, and what is kept from it."""

from __future__ import annotations

import pytest

from runners import judging


def test_what_the_readme_lets_one_set_of_the_judge_reaches_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = {"ARENA_GPU": "none", "ARENA_CUDA_ARCH": "sm_80", "ARENA_UNCONFINED": "1"}
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    assert chosen.items() <= judging.environment().items()


def test_no_address_or_key_of_the_arena_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARENA_REDIS_URL", "ARENA_SECRET_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "secret")
    assert "secret" not in judging.environment().values()
    assert set(judging.environment()) <= set(judging.ENVIRONMENT)
