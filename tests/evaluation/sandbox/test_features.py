"""Isolation features found on this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.sandbox import features
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import IsolationFeatures


@pytest.fixture
def expected() -> IsolationFeatures:
    """All features of this machine but other users."""
    if not isolation_features().any:
        pytest.skip("this machine has neither namespaces nor Landlock")
    return replace(isolation_features(), other_user=False)


@pytest.mark.parametrize("status", ["CapEff:\t0\nUmask:\t0022", f"CapEff:\t{1 << 41:x}", ""])
def test_features_without_capabilities_are_tried_one_by_one_without_other_users(
    status: str, expected: IsolationFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda path: status)
    assert isolation_features.__wrapped__() == expected


def test_features_with_a_private_umask_have_no_other_users(
    expected: IsolationFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = Path("/proc/self/status").read_text().replace("Umask:\t0022", "Umask:\t0077")
    monkeypatch.setattr(Path, "read_text", lambda path: status)
    assert isolation_features.__wrapped__() == expected


def test_features_where_one_does_not_work_are_the_others(
    expected: IsolationFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = features.run
    monkeypatch.setattr(Path, "read_text", lambda path: "CapEff:\t0")

    def run_without_seccomp(argv, policy, **named):  # type: ignore[no-untyped-def]
        return run(["/bin/false"] if policy.features.seccomp else argv, policy, **named)

    monkeypatch.setattr(features, "run", run_without_seccomp)
    assert isolation_features.__wrapped__() == replace(expected, seccomp=False)
