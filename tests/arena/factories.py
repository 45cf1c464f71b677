"""Gates and reports of the judge, with hidden values where they can occur."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from dramatiq.brokers.redis import RedisBroker

from arena.catalog.models import Agent, Operator, Task, TaskVersion
from arena.runs import services
from arena.runs.models import Evaluation, Run
from arena.runs.scoring.standings import keep_standing
from evaluation.types import (
    CompilerOutput,
    Diagnostic,
    GateName,
    GateResult,
    Interval,
    Measurement,
    Reason,
    Report,
    Split,
    Verdict,
)

HIDDEN_CASE = "hidden-case-zebra"
HIDDEN_SYMBOL = 7919
LEASE = "worker-1"


def measurement(case: str = "small", split: str = "seen", speedup: float = 2.0) -> Measurement:
    return Measurement(
        case=case,
        split=Split(split),
        kind="nominal",
        dtype="float32",
        symbols={"n": 1024 if split == "seen" else HIDDEN_SYMBOL},
        baseline="cpp",
        candidate_us=10.0,
        baseline_us=10.0 * speedup,
        speedup=speedup,
        low=speedup * 0.95,
        high=speedup * 1.05,
        gbps=5.0,
        tflops=0.1,
        roofline_share=0.5,
        blocks=20,
        noisy=False,
    )


def gate(name: str, verdict: str = "passed", reason: str | None = None, **more: Any) -> GateResult:
    values = {
        "passed": 1,
        "total": 1,
        "duration_ms": 5.0,
        "private": {"worst": {"case": HIDDEN_CASE, "n": HIDDEN_SYMBOL}},
        **more,
    }
    return GateResult(
        GateName(name), Verdict(verdict), Reason(reason) if reason else None, **values
    )


def compiled(ok: bool = True) -> GateResult:
    error = Diagnostic("relu.cpp", 3, "error", "expected ';'")
    output = CompilerOutput(
        tool="g++",
        arch="native",
        ok=ok,
        duration_ms=900.0,
        text="" if ok else "relu.cpp:3:1: error: expected ';'",
        diagnostics=() if ok else (error,),
    )
    if ok:
        return gate("compile", compiler=(output,))
    return gate("compile", "failed", "BUILD_ERROR", compiler=(output,))


def interval(speedup: float) -> Interval:
    return Interval(speedup, speedup * 0.95, speedup * 1.05)


def report(
    verdict: str = "passed", speedup: float = 2.0, unseen: float | None = 1.8, **more: Any
) -> Report:
    passed = verdict == "passed"
    hidden = measurement(HIDDEN_CASE, "unseen", unseen or 1.0)
    values = {
        "task": "relu/cpp-to-cpp",
        "task_hash": "a" * 64,
        "judge_version": "1",
        "verdict": Verdict(verdict),
        "reason": None if passed else Reason.WRONG_VALUES,
        "message": "Right on all." if passed else "Case small differs at [3].",
        "gates": (
            gate("integrity"),
            compiled(),
            gate("correctness", verdict),
            gate("performance", measurements=(measurement(speedup=speedup),)),
            gate("generalization", measurements=(hidden,), passed=5, total=5, duration_ms=0.0),
        ),
        "seen": interval(speedup) if passed else None,
        "unseen": interval(unseen) if passed and unseen else None,
        "roofline_share": 0.4 if passed else None,
        "noisy": False,
        "aka_score": 320.0,
        "fingerprint": {"cpu": "test"},
        "seconds": {"total": 3.0},
        **more,
    }
    return Report(**values)


def ask_for_verdict(run: Run, scope: str = "final") -> Evaluation:
    """Submit a file in a claimed run, and request a verdict."""
    submission = services.submit(run.pk, {"relu.cpp": "int relu;"})
    return services.request_evaluation(submission, scope)


def measure(evaluation: Evaluation, lease: str = LEASE) -> None:
    """Take an evaluation through both queues until its device measures it, as workers do."""
    assert services.claim_evaluation(evaluation.pk, "queued", "building", lease)
    assert services.finish_build(evaluation.pk, lease)
    assert services.claim_evaluation(evaluation.pk, "built", "measuring", lease)


def judge(evaluation: Evaluation, outcome: Report) -> None:
    """Take an evaluation to `outcome`, as workers do."""
    measure(evaluation)
    for result in outcome.gates:
        assert services.record_gate(evaluation.pk, LEASE, result)
    assert services.finish_evaluation(evaluation.pk, LEASE, outcome)


def finished(run: Run, **outcome: Any) -> Run:
    """Take a queued run to its end: claimed, submitted, judged."""
    assert services.claim_run(run.pk, LEASE)
    judge(ask_for_verdict(run), report(**outcome))
    run.refresh_from_db()
    return run


def judged_run(by: str, on: str = "relu", speedup: float | None = None, **more: Any) -> Run:
    """Return a judged run that has no events: by the agent and on the task of these slugs.

    With a speedup the run has passed. Missing agents and tasks are created.
    """
    operator, _ = Operator.objects.get_or_create(
        slug=on,
        defaults={
            "title": on, "category": "Activation", "level": 1, "prompt": "", "reference_source": ""
        },
    )  # fmt: skip
    task, _ = Task.objects.get_or_create(
        operator=operator, track="cpp-to-cpp", defaults={"status": "published"}
    )
    version, _ = TaskVersion.objects.get_or_create(task=task, content_hash="a" * 64)
    agent, _ = Agent.objects.get_or_create(slug=by, defaults={"title": by, "adapter": "tuner"})
    numbers = {}
    if speedup is not None:
        width = more.pop("width", 1.05)
        numbers = {"speedup": speedup, "low": speedup / width, "high": speedup * width}
        numbers |= {f"unseen_{name}": value for name, value in numbers.items()}
    status = "passed" if speedup else "failed"
    owner = more.get("owner")
    values = {"status": status, "rounds": 1, "judge_version": "1", **numbers, **more}
    values.setdefault("by_arena", owner is None or owner.is_staff)
    run = Run.objects.create(task_version=version, agent=agent, **values)
    keep_standing(run)
    return run


def messages_in(name: str) -> list[tuple[str, tuple]]:
    """Return actor and arguments of the messages that lie in a queue, as a worker gets them."""
    broker = RedisBroker(url=settings.REDIS_URL)
    consumer = broker.consume(name, prefetch=100, timeout=100)
    found = []
    while (message := next(consumer)) is not None:
        found.append((message.actor_name, tuple(message.args)))
    consumer.close()
    broker.close()
    return found


def hide(run: Run, visibility: str = "staff") -> None:
    """Make a run one that was started for some users alone."""
    Run.objects.filter(pk=run.pk).update(visibility=visibility)
    keep_standing(run)
