"""Trivial submissions run on the GPU and fail for their outputs."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from evaluation.bench.process.fork_server import ForkServer
from evaluation.kinds.kernel.admission import admit
from evaluation.kinds.kernel.admission.trivial_submissions import NOTES
from evaluation.kinds.kernel.load import load_task
from evaluation.types import Reason, Verdict
from tests.gpu.submissions import HERE

pytestmark = pytest.mark.gpu

OUTPUT_REASONS = {Reason.WRONG_VALUES, Reason.NON_FINITE, Reason.STALE_OUTPUT}


@pytest.mark.parametrize("language", ["cuda", "hip", "triton", "torch"])
def test_trivial_submissions_fail_for_their_outputs(
    language: str,
    in_a_hurry: None,
    cache: Path,
    fork_server: ForkServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admit, "ForkServer", lambda: nullcontext(fork_server))
    monkeypatch.setattr(admit, "has_mutants", lambda folder: True)  # so that they are tried
    task = load_task(HERE / "operators", "centred", f"cuda-to-{language}")
    admission = admit.admit(task, cache, self_test=True)
    probes = {attempt.name: attempt for attempt in admission.attempts if attempt.role == "probe"}
    assert set(probes) == set(NOTES)
    for probe in probes.values():
        assert probe.verdict is Verdict.FAILED
        assert probe.reason in OUTPUT_REASONS, probe.message
    if language != "torch":  # its uninitialised result is copied to the output
        assert probes["stale"].reason is Reason.STALE_OUTPUT
    # CUDA has the baseline to time, and PyTorch an implementation derived from the reference.
    assert (admission.repeat is not None) == (language in ("cuda", "torch"))
