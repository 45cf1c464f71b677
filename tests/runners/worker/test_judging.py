"""What a judge is given of its worker's environment and time, and what is kept of its failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from arena import telemetry
from arena.runs import services
from arena.runs.models import Evaluation, Run
from evaluation import device_kind
from evaluation.bench.process import handle
from evaluation.code.building import extensions, nvcc
from evaluation.kinds.kernel.gates.generalization import MAX_REST_SECONDS
from evaluation.kinds.kernel.load import load_operator
from evaluation.tasks.spec import find_operators, folder_of
from runners.worker import judging
from tests.runners.house import ROOT


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


@pytest.mark.parametrize("kind", [device_kind.CPU, device_kind.GPU])
def test_what_a_candidate_may_take_is_over_before_its_judge_is_taken_to_have_failed(
    kind: str,
) -> None:
    names = find_operators(ROOT / "tasks")
    assert len(names) > 10
    for name in names:
        operator = load_operator(folder_of(ROOT / "tasks", name), kind)
        limit = operator.limits.seconds
        one_by_one = (len(operator.domain.dtypes) + len(nvcc.CROSS_ARCHITECTURES)) * limit
        assert max(one_by_one, extensions.LIMIT_FACTOR * limit) + 60 < judging.BUILD.seconds, name
        longest = handle.max_total_seconds(limit) + MAX_REST_SECONDS + limit
        assert longest + 240 < judging.MEASURE.seconds, name


def test_where_the_judge_failed_is_logged_before_it_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept: list[Any] = []
    here: Any = None
    work = judging.Judging(
        "evaluation 7", here, judging.MEASURE, None, {}, lambda: True, kept.append
    )
    private = {"error": "KeyError", "trace": "Traceback:\n  line 3"}
    gate = {"gate": "compile", "type": "gate"}
    work.receive({**gate, "verdict": "broken", "private": private})
    work.receive({**gate, "verdict": "failed", "private": {"case": "hidden one"}})
    assert len(kept) == 2
    assert "evaluation 7 broke" in caplog.text and "\n  line 3" in caplog.text
    assert "hidden one" not in caplog.text


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    """Record the spans of a test."""
    exporter = InMemorySpanExporter()
    telemetry.start(SimpleSpanProcessor(exporter))
    yield exporter
    telemetry.stop()


def test_gate_of_a_verdict_is_a_span_of_its_duration(exporter: InMemorySpanExporter) -> None:
    here: Any = None
    work = judging.Judging("evaluation 7", here, judging.MEASURE, None, {}, lambda: True)
    with telemetry.span("verdict"):
        work.receive(
            {"type": "gate", "gate": "compile", "verdict": "failed", "reason": "BUILD_ERROR",
             "duration_ms": 250.0}
        )  # fmt: skip
    gate, verdict = exporter.get_finished_spans()
    assert (gate.name, gate.attributes) == (
        "gate compile", {"verdict": "failed", "reason": "BUILD_ERROR"},
    )  # fmt: skip
    assert gate.parent.span_id == verdict.context.span_id
    assert gate.end_time - gate.start_time == 250_000_000


@pytest.mark.django_db(transaction=True)
def test_verdict_is_a_span_with_its_run_also_where_its_judge_fails(
    exporter: InMemorySpanExporter, start: Callable[..., Run], settings: Any, tmp_path: Any
) -> None:
    settings.ARENA_HOME = tmp_path
    run = start()  # of a task that no judge has
    services.claim_run(run.pk, "a lease")
    submission = services.submit(run.pk, {"relu.cpp": "int relu;"})
    evaluation = services.request_evaluation(submission, "round")
    judging.build(evaluation.pk)
    (verdict,) = exporter.get_finished_spans()
    assert (verdict.name, verdict.status.is_ok) == ("verdict build", False)
    assert verdict.attributes["run"] == run.pk
    assert verdict.attributes["evaluation"] == evaluation.pk
    assert Evaluation.objects.get().status == "queued"  # it is tried again
