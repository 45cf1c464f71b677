"""Isolation features found on this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.sandbox.features import isolation_features, tried_features
from evaluation.sandbox.launch import run
from evaluation.sandbox.policy import IsolationFeatures


@pytest.fixture
def expected() -> IsolationFeatures:
    """All features of this machine but other users."""
    if not isolation_features().any:
        pytest.skip("this machine has neither namespaces nor Landlock")
    return replace(isolation_features(), other_user=False)


@pytest.mark.parametrize("status", ["CapEff:\t0\nUmask:\t0022", f"CapEff:\t{1 << 41:x}", ""])
def test_features_without_capabilities_are_tried_one_by_one_without_other_users(
    status: str, expected: IsolationFeatures
) -> None:
    assert tried_features(status) == expected


def test_features_with_a_private_umask_have_no_other_users(expected: IsolationFeatures) -> None:
    status = Path("/proc/self/status").read_text().replace("Umask:\t0022", "Umask:\t0077")
    assert tried_features(status) == expected


def test_features_where_one_does_not_work_are_the_others(expected: IsolationFeatures) -> None:
    def run_without_seccomp(argv, policy, **named):  # type: ignore[no-untyped-def]
        return run(["/bin/false"] if policy.features.seccomp else argv, policy, **named)

    found = tried_features("CapEff:\t0", run_without_seccomp)
    assert found == replace(expected, seccomp=False)
