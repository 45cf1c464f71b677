"""Gates and reports as the judge writes them, with hidden things planted where they may be."""

from __future__ import annotations

from typing import Any

from arena.catalog.models import Agent, Operator, Task, TaskVersion
from arena.runs import services
from arena.runs.models import Evaluation, Run

HIDDEN_CASE = "hidden-case-zebra"
HIDDEN_SYMBOL = 7919
LEASE = "worker-1"


def measurement(case: str = "small", split: str = "seen", speedup: float = 2.0) -> dict[str, Any]:
    size = 1024 if split == "seen" else HIDDEN_SYMBOL
    return {
        "case": case,
        "split": split,
        "kind": "nominal",
        "dtype": "float32",
        "symbols": {"n": size},
        "baseline": "cpp",
        "candidate_us": 10.0,
        "baseline_us": 10.0 * speedup,
        "speedup": speedup,
        "low": speedup * 0.95,
        "high": speedup * 1.05,
        "gbps": 5.0,
        "tflops": 0.1,
        "roofline_share": 0.5,
        "warm_us": None,
        "blocks": 20,
        "noisy": False,
    }


def gate(name: str, verdict: str = "passed", **more: Any) -> dict[str, Any]:
    return {
        "gate": name,
        "verdict": verdict,
        "reason": None,
        "message": "",
        "rule": "",
        "passed": 1,
        "total": 1,
        "duration_ms": 5.0,
        "detail": {},
        "private": {"worst": {"case": HIDDEN_CASE, "n": HIDDEN_SYMBOL}},
        "compiler": [],
        "measurements": [],
        **more,
    }


def compiled(ok: bool = True) -> dict[str, Any]:
    output = {
        "tool": "g++",
        "arch": "native",
        "ok": ok,
        "duration_ms": 900.0,
        "text": "" if ok else "relu.cpp:3:1: error: expected ';'",
        "diagnostics": []
        if ok
        else [{"file": "relu.cpp", "line": 3, "severity": "error", "message": "expected ';'"}],
        "resources": {},
        "listings": {},
    }
    verdict = "passed" if ok else "failed"
    return gate("compile", verdict, compiler=[output], reason=None if ok else "BUILD_ERROR")


def interval(speedup: float) -> dict[str, float]:
    return {"speedup": speedup, "low": speedup * 0.95, "high": speedup * 1.05}


def report(
    verdict: str = "passed", speedup: float = 2.0, unseen: float | None = 1.8, **more: Any
) -> dict[str, Any]:
    passed = verdict == "passed"
    hidden = measurement(HIDDEN_CASE, "unseen", unseen or 1.0)
    return {
        "task": "relu/cpp-to-cpp",
        "task_hash": "a" * 64,
        "judge_version": "1",
        "verdict": verdict,
        "reason": None if passed else "WRONG_VALUES",
        "message": "Right on all." if passed else "Case small differs at [3].",
        "gates": [
            gate("integrity"),
            compiled(),
            gate("correctness", verdict),
            gate("performance", measurements=[measurement(speedup=speedup)]),
            gate("generalization", measurements=[hidden], passed=5, total=5),
        ],
        "seen": interval(speedup) if passed else None,
        "unseen": interval(unseen) if passed and unseen else None,
        "roofline_share": 0.4 if passed else None,
        "noisy": False,
        "aka_score": 320.0,
        "fingerprint": {"cpu": "test"},
        "seconds": {"total": 3.0},
        **more,
    }


def ask_for_verdict(run: Run, scope: str = "final") -> Evaluation:
    """Hand in a file on a run that has been claimed, and ask for a verdict."""
    submission = services.submit(run.pk, {"relu.cpp": "int relu;"})
    return services.request_evaluation(submission, scope)


def judge(evaluation: Evaluation, outcome: dict[str, Any]) -> None:
    """Take an evaluation through both queues to `outcome`, as workers do."""
    assert services.claim_evaluation(evaluation.pk, "queued", "building", LEASE)
    assert services.finish_build(evaluation.pk, LEASE)
    assert services.claim_evaluation(evaluation.pk, "built", "measuring", LEASE)
    for gate_line in outcome["gates"]:
        services.record_gate(evaluation.pk, gate_line)
    assert services.finish_evaluation(evaluation.pk, LEASE, outcome)


def finished(run: Run, **outcome: Any) -> Run:
    """A queued run taken to its end: claimed, handed in, judged."""
    assert services.claim_run(run.pk, LEASE)
    judge(ask_for_verdict(run), report(**outcome))
    run.refresh_from_db()
    return run


def judged_run(by: str, on: str = "relu", speedup: float | None = None, **more: Any) -> Run:
    """A judged run, as its row alone: by the agent and on the task of these slugs, which are made
    where they are not there; a speedup means that it passed.
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
    status = "passed" if speedup else "failed"
    values = {"status": status, **numbers, **more}
    return Run.objects.create(task_version=version, agent=agent, **values)
