"""What knows nothing of an operator is built, runs on the GPU, and is refused for what it wrote."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from pathlib import Path

import pytest

from evaluation.admission import admit
from evaluation.admission.trivial_submissions import NOTES
from evaluation.process.fork_server import ForkServer
from evaluation.tasks.spec import Track
from evaluation.tracks.load import load_task
from evaluation.types import Reason, Verdict
from tests.gpu.submissions import HERE

pytestmark = pytest.mark.gpu

OF_WHAT_IS_THERE = {Reason.WRONG_VALUES, Reason.NON_FINITE, Reason.STALE_OUTPUT}


@pytest.mark.parametrize("language", ["cuda", "hip", "triton", "torch"])
def test_every_probe_runs_and_is_refused_for_its_outputs(
    language: str,
    in_a_hurry: None,
    cache: Path,
    fork_server: ForkServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admit, "ForkServer", lambda: nullcontext(fork_server))
    task = load_task(HERE / "operators", "centred", "cuda-to-cuda")
    found = admit.admit(dataclasses.replace(task, track=Track("cuda", language)), cache)
    probes = {attempt.name: attempt for attempt in found.attempts if attempt.role == "probe"}
    assert set(probes) == set(NOTES)
    for probe in probes.values():
        assert probe.verdict is Verdict.FAILED
        assert probe.reason in OF_WHAT_IS_THERE, probe.message
    if language != "torch":  # what it returns unwritten is copied
        assert probes["stale"].reason is Reason.STALE_OUTPUT
    # An answer to time is there for CUDA, the baseline, and for PyTorch, made of the reference.
    assert (found.repeat is not None) == (language in ("cuda", "torch"))
