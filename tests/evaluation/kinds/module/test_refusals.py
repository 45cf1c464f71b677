"""Refusals of mutants and tricks on a CPU, in three architectures."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.bench.process.fork_server import ForkServer
from evaluation.types import GateName, Reason, Verdict
from tests.evaluation.kinds.module.verdicts import FINAL, judged

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("task", "candidate", "message"),
    [
        ("llama_rms_norm", "wrong_epsilon", "its error is"),
        ("llama_rms_norm", "skipped_layer", "budget"),
        ("llama_rms_norm", "int8_everywhere", "budget"),
        ("qwen3_moe_rms_norm", "dropped_expert", "budget"),
        ("dit_gelu", "int8_gelu", "the library's"),
    ],
)
@pytest.mark.usefixtures("unread")
def test_mutant_is_refused(
    task: str,
    candidate: str,
    message: str,
    cache: Path,
    model_server: ForkServer,
) -> None:
    report = judged(task, candidate, cache, model_server, FINAL)
    assert report.verdict is Verdict.FAILED
    assert report.gates[-1].gate is GateName.CORRECTNESS
    assert message in report.message


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        ("decoy_patch", "changes other modules"),
        ("batched_steps", "decode, eager: the model's error"),
        ("skipped_in_decode", "decode, eager: the model's error"),
        ("skipped_in_last_step", "rows of the model's output are wrong"),
        ("cached_address", "prefill, eager: the model's error"),
        ("only_alone", "prefill, eager: the model's error"),
        ("hidden_int8", "prefill, eager: the model's error"),
        ("held_work", "was not written"),
    ],
)
@pytest.mark.usefixtures("unread")
def test_trick_is_refused(
    candidate: str, message: str, cache: Path, model_server: ForkServer
) -> None:
    report = judged("llama_rms_norm", candidate, cache, model_server)
    assert report.verdict is Verdict.FAILED
    assert report.gates[-1].gate is GateName.CORRECTNESS
    assert message in report.message


@pytest.mark.usefixtures("unread")
def test_write_to_the_weights_ends_the_candidate(cache: Path, model_server: ForkServer) -> None:
    report = judged("llama_rms_norm", "writes_weights", cache, model_server)
    assert (report.verdict, report.reason) == (Verdict.FAILED, Reason.CRASH)
    assert report.gates[-1].gate is GateName.COMPILE


@pytest.mark.parametrize("candidate", ["skipped_layer", "dropped_expert"])
def test_change_of_the_librarys_models_is_rejected(
    candidate: str, cache: Path, model_server: ForkServer
) -> None:
    report = judged("llama_rms_norm", candidate, cache, model_server)
    assert report.verdict is Verdict.REJECTED
    assert "is not yours to change" in report.message
