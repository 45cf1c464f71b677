"""Compositions: which kernels are measured together, when, and what is kept of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from arena import leases, queue
from arena.catalog.models import Agent, Hardware
from arena.leaderboard.models import Composition
from arena.leaderboard.production import compositions
from arena.runs import services
from arena.runs.models import Evaluation, Run
from evaluation.kinds.module.architectures import Architecture, architectures
from evaluation.types import GateName, GateResult, Report, Verdict
from tests.arena.factories import LEASE, report
from tests.arena.production import performance, production_run

pytestmark = pytest.mark.django_db
NORM, MLP, LAYER = "llama_rms_norm", "llama_mlp", "llama_decoder_layer"


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Return the messages that are sent; every library is there."""
    messages: list[tuple[Any, ...]] = []
    monkeypatch.setattr(queue, "enqueue", lambda *message: messages.append(message))
    monkeypatch.setattr(Architecture, "missing", lambda self: "")
    return messages


def best(on: str, deployed: float = 1.25, by: str = "tuner", **more: Any) -> Run:
    """Return a run whose kernel has this speedup, with a content of its own."""
    run = production_run(by, on, performance(4.0, deployed), **more)
    assert run.final is not None
    run.final.content_hash = f"{run.pk}".ljust(64, "0")
    run.final.save()
    return run


def device() -> Hardware:
    return Hardware.objects.get(slug="test-cpu")


def requested() -> Composition:
    """Return the composition that the device asks for now."""
    assert compositions.advance(device())
    return Composition.objects.latest("pk")


def measured(composition: Composition, **changes: Any) -> Composition:
    """Return the composition after a worker has measured it."""
    claimed = compositions.claim(composition.pk, LEASE)
    assert claimed is not None
    compositions.finish(claimed, LEASE, report_of(**changes))
    composition.refresh_from_db()
    return composition


def report_of(**changes: Any) -> Report:
    timed = GateResult(GateName.PERFORMANCE, Verdict.PASSED, detail=performance(2.0, 1.5))
    values = {"gates": (timed,), "task_hash": architectures()["llama"].hash, **changes}
    return report(**values)


def test_best_kernels_of_an_architecture_are_measured_once(sent: list[Any]) -> None:
    norm = best(NORM)
    assert not compositions.advance(device()), "one kernel is measured by its own verdict"
    best(MLP, 1.1)
    mlp = best(MLP, 1.2, by="climber")
    found = requested()
    assert {op: each["hash"] for op, each in found.submissions.items()} == {
        run.task_version.task.operator.slug: run.final.content_hash for run in (norm, mlp)
    }
    assert sent == [("compose", "hw.test-cpu", found.pk)]
    done = measured(found)
    assert (done.status, done.verdict, done.judge_version) == ("done", "passed", "1")
    assert done.gates["performance"]["deployed"]["speedup"] == 1.5
    assert done.fingerprint and done.ended_at
    assert not compositions.advance(device())


def test_faster_kernel_makes_a_new_composition() -> None:
    best(NORM)
    best(MLP)
    first = measured(requested())
    best(MLP, 1.5, by="climber")
    second = requested()
    assert second.key != first.key
    assert second.submissions[NORM] == first.submissions[NORM]


def test_kernel_that_contains_others_is_left_out() -> None:
    best(NORM)
    best(MLP)
    best(LAYER, 1.05)
    assert set(requested().submissions) == {NORM, MLP}


def test_hidden_runs_and_those_in_quarantine_are_never_used() -> None:
    shown = [best(NORM), best(MLP)]
    best(MLP, 1.6, by="hidden", visibility="owner")
    held = best(NORM, 1.6, by="held")
    services.quarantine(held, "It read the clock.")
    closed = best(MLP, 1.7, by="closed").agent
    Agent.objects.filter(pk=closed.pk).update(
        quarantined_at="2026-01-01T00:00Z", quarantine_reason="It cheats."
    )
    found = requested().submissions
    assert [found[op]["id"] for op in (NORM, MLP)] == [run.final_id for run in shown]


def test_library_that_is_missing_here_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    best(NORM)
    best(MLP)
    monkeypatch.setattr(Architecture, "missing", lambda self: "transformers is not installed")
    assert not compositions.advance(device())


def test_verdicts_come_before_compositions(sent: list[Any]) -> None:
    run = best(NORM)
    best(MLP)
    evaluation = Evaluation.objects.get(submission__run=run)
    for status in ("queued", "building", "built", "measuring"):
        Evaluation.objects.filter(pk=evaluation.pk).update(status=status)
        assert not compositions.advance(device()), status
    Evaluation.objects.update(status="done")
    waiting = requested()
    Evaluation.objects.filter(pk=evaluation.pk).update(status="built")
    assert compositions.claim(waiting.pk, LEASE) is None
    waiting.refresh_from_db()
    assert waiting.status == "queued"
    Evaluation.objects.update(status="done")
    assert compositions.claim(waiting.pk, LEASE)


def test_device_measures_one_composition_at_a_time(sent: list[Any]) -> None:
    for name in (NORM, MLP, "dit_gelu", "dit_layer_norm"):
        best(name)
    first = requested()
    assert not compositions.advance(device())
    measured(first, task_hash=first.architecture_hash)
    assert requested().architecture != first.architecture


def test_lost_message_is_sent_again(sent: list[Any]) -> None:
    best(NORM)
    best(MLP)
    found = requested()
    assert not compositions.advance(device())
    old = found.heartbeat_at - leases.MESSAGE_GRACE - timedelta(seconds=1)
    Composition.objects.update(heartbeat_at=old)
    assert compositions.advance(device())
    assert sent == [("compose", "hw.test-cpu", found.pk)] * 2


def test_silent_worker_loses_its_composition_and_the_last_ends_it(sent: list[Any]) -> None:
    best(NORM)
    best(MLP)
    found = requested()
    for status in (*["queued"] * leases.MAX_INTERRUPTIONS, "broken"):
        assert compositions.claim(found.pk, LEASE)
        assert compositions.claim(found.pk, "another") is None
        assert compositions.reap() == 0
        old = found.heartbeat_at - leases.LEASE - timedelta(seconds=1)
        Composition.objects.update(heartbeat_at=old)
        assert compositions.reap() == 1
        assert not Composition.objects.renew(found.pk, LEASE)
        found.refresh_from_db()
        assert found.status == status
    assert found.message == leases.SILENT
    assert not compositions.advance(device()), "its kernels are the same"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"verdict": "broken", "message": "No memory."}, "No memory."),
        ({"task_hash": "0" * 64}, "The architecture changed on disk"),
    ],
)
def test_measurement_that_does_not_count_is_tried_twice(
    changes: dict[str, Any], message: str
) -> None:
    best(NORM)
    best(MLP)
    found = requested()
    assert measured(found, **changes).status == "queued"
    assert measured(found, **changes).status == "broken"
    assert found.message.startswith(message) and not found.verdict
