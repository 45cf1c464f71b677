"""Isolation features found on this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.sandbox import features
from evaluation.sandbox.features import isolation_features


@pytest.fixture(autouse=True)
def isolated() -> None:
    if not isolation_features().any:
        pytest.skip("this machine has neither namespaces nor Landlock")


def test_features_where_not_all_work_are_tried_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    every = isolation_features()
    monkeypatch.setattr(features, "_with_other_user", lambda found: found)
    assert isolation_features.__wrapped__() == replace(every, other_user=False)
    works = features._works
    monkeypatch.setattr(features, "_works", lambda trial: not trial.seccomp and works(trial))
    fewer = replace(every, other_user=False, seccomp=False)
    assert isolation_features.__wrapped__() == fewer


def test_features_without_capabilities_or_with_a_private_umask_have_no_other_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = replace(isolation_features(), other_user=False)
    here = Path("/proc/self/status").read_text()
    effective = next(line for line in here.splitlines() if line.startswith("CapEff:"))
    for line, changed in ((effective, "CapEff:\t0"), ("Umask:\t0022", "Umask:\t0077")):
        text = here.replace(line, changed)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "read_text", lambda path, text=text: text)
            assert features._with_other_user(found) == found
