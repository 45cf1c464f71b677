"""Made-up results of many agents, written in bulk: what the benchmark of the boards reads."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from typing import Any

from django.core.management import call_command
from django.db import models
from django.utils import timezone

from arena.catalog.models import Agent, Hardware, Harness, Operator, Task, TaskVersion
from arena.runs.models import (
    Evaluation,
    Experiment,
    GateResult,
    Measurement,
    Run,
    Submission,
)
from arena.runs.scoring.standings import rebuild
from evaluation.types import GateName

OPERATORS, TRACKS = 250, ("torch-to-triton", "torch-to-cuda", "cuda-to-cuda", "cpp-to-cpp")
AGENTS, DEVICES, MODELS, HARNESSES, EXPERIMENTS = 60, 4, 12, 6, 20
CATEGORIES = (
    "Activation", "Attention", "Convolution", "Embedding", "Loss", "Matmul", "Mixture of experts",
    "Normalization", "Optimizer", "Pooling", "Quantization", "Reduction", "Scan", "Sorting",
)  # fmt: skip
FAMILIES = ("llm", "vision", "speech", "recommender")
SEEN, UNSEEN = 4, 6
PER_RUN = 2 * SEEN + UNSEEN
"""Measurements of a run: the public cases of its round, and every case of its final verdict."""
FAILURES = (
    ("compile", "BUILD_ERROR"), ("correctness", "WRONG_VALUES"), ("correctness", "CRASHED"),
    ("integrity", "FORBIDDEN_API"), ("generalization", "WRONG_VALUES"),
)  # fmt: skip
DAYS = 60
BATCH = 2000
SEED = 20261124


def fill(measurements: int) -> dict[str, int]:
    """Write results with this many measurements into an empty database; return its row counts."""
    call_command("migrate", verbosity=0)
    dice = random.Random(SEED)
    versions, agents, devices, experiments = _catalog(dice)
    places = _places(dice, measurements // PER_RUN)
    began = timezone.now() - timedelta(days=DAYS)
    made = iter(places)
    number = 0
    while chunk := list(islice(made, BATCH)):
        rows = []
        for version, agent, device, repeat in chunk:
            at = began + timedelta(days=DAYS) * (number / len(places))
            number += 1
            rows.append(_run(dice, versions[version], agents[agent], devices[device], repeat, at))
            if dice.random() < 0.2:
                rows[-1].experiment = dice.choice(experiments)
        Run.objects.bulk_create(rows)
        _judge(dice, rows)
    rebuild()
    counted: tuple[type[models.Model], ...] = (
        Task, Agent, Hardware, Run, Evaluation, GateResult, Measurement,
    )  # fmt: skip
    return {model.__name__.lower(): model._default_manager.count() for model in counted}


def _catalog(
    dice: random.Random,
) -> tuple[list[TaskVersion], list[Agent], list[Hardware], list[Experiment]]:
    operators = Operator.objects.bulk_create(
        Operator(
            slug=f"operator_{n:03}",
            title=f"Operator {n}",
            category=CATEGORIES[n % len(CATEGORIES)],
            families=dice.sample(FAMILIES, 2),
            level=1 + n % 3,
            prompt="Make it fast.",
            reference_source="def reference(x):\n    return x\n",
        )
        for n in range(OPERATORS)
    )
    tasks = Task.objects.bulk_create(
        Task(operator=operator, track=track, status="published")
        for operator in operators
        for track in TRACKS
    )
    versions = TaskVersion.objects.bulk_create(
        TaskVersion(task=task, content_hash=f"{n:064}", public=_public(), admitted=True)
        for n, task in enumerate(tasks)
    )
    Harness.objects.bulk_create(
        Harness(name=f"harness-{n}", title=f"Harness {n}", wires=["x"]) for n in range(HARNESSES)
    )
    agents = Agent.objects.bulk_create(
        Agent(
            slug=f"agent-{n:02}",
            title=f"Agent {n}",
            adapter=f"harness-{n % HARNESSES}",
            model=f"model-{n % MODELS}",
            provider="provider",
            open_book=n == AGENTS - 1,
        )
        for n in range(AGENTS)
    )
    devices = Hardware.objects.bulk_create(
        Hardware(slug=f"device-{n}", name=f"Device {n}", kind="gpu", queue=f"hw.device-{n}")
        for n in range(DEVICES)
    )
    experiments = Experiment.objects.bulk_create(
        Experiment(slug=f"experiment-{n}", title=f"Experiment {n}") for n in range(EXPERIMENTS)
    )
    return versions, agents, devices, experiments


def _public() -> dict[str, Any]:
    cases = [
        {"name": f"case-{n}", "split": "seen", "kind": "nominal", "dtype": "float32",
         "symbols": {"n": 1 << (10 + n)}}
        for n in range(SEEN)
    ]  # fmt: skip
    return {"kind": "gpu", "seen_cases": cases, "hidden_cases": {"edge": 3}, "arguments": []}


def _places(dice: random.Random, count: int) -> list[tuple[int, int, int, int]]:
    """Return the task, agent, device and repeat of each run, in the order of time.

    Five of six runs are of a suite that every agent attempts on every device; the others are of any
    task, so that coverage differs and some places have several runs.
    """
    tasks = OPERATORS * len(TRACKS)
    suite = dice.sample(range(tasks), count * 5 // 6 // (AGENTS * DEVICES))
    places = [(t, a, d, 0) for t in suite for a in range(AGENTS) for d in range(DEVICES)]
    while len(places) < count:
        place = dice.randrange(tasks), dice.randrange(AGENTS), dice.randrange(DEVICES)
        places.append((*place, dice.randrange(2)))
    dice.shuffle(places)
    return places


def _run(
    dice: random.Random, version: TaskVersion, agent: Agent, device: Hardware, repeat: int, at: Any
) -> Run:
    run = Run(
        task_version=version,
        agent=agent,
        hardware=device,
        repeat=repeat,
        status="passed" if dice.random() < 0.75 else "failed",
        created_at=at,
        started_at=at,
        ended_at=at + timedelta(minutes=dice.uniform(1, 30)),
        rounds=1,
        judge_version="5",
        last_seq=0,
        cost_usd=dice.uniform(0.01, 2),
        tokens=dice.randrange(10_000, 2_000_000),
    )
    if run.status == "passed":
        strength = 1 + (agent.pk % 7) / 4
        speedup = strength * dice.lognormvariate(0, 0.4)
        unseen = speedup * dice.uniform(0.5, 1.1)
        run.speedup, run.low, run.high = speedup, speedup * 0.97, speedup * 1.03
        run.unseen_speedup, run.unseen_low, run.unseen_high = unseen, unseen * 0.9, unseen * 1.1
        run.roofline_share = dice.uniform(0.1, 0.9)
    else:
        run.reason, run.fault = "It failed.", "candidate"
    return run


def _judge(dice: random.Random, runs: list[Run]) -> None:
    """Write the submission, both verdicts, the gates and the measurements of these runs."""
    submissions = Submission.objects.bulk_create(
        Submission(
            run=run, round=1, content_hash=secrets.token_hex(32), files={"kernel.py": "pass\n"}
        )
        for run in runs
    )
    for run, submission in zip(runs, submissions, strict=True):
        run.final = submission
    Run.objects.bulk_update(runs, ["final"])
    evaluations = Evaluation.objects.bulk_create(
        _evaluation(dice, submission, scope)
        for submission in submissions
        for scope in ("round", "final")
    )
    GateResult.objects.bulk_create(
        (gate for each in evaluations for gate in _gates(each)), batch_size=BATCH
    )
    Measurement.objects.bulk_create(
        (case for each in evaluations for case in _measurements(dice, each)), batch_size=BATCH
    )


def _evaluation(dice: random.Random, submission: Submission, scope: str) -> Evaluation:
    run = submission.run
    passed = run.status == "passed"
    evaluation = Evaluation(
        submission=submission,
        scope=scope,
        hardware=run.hardware,
        status="done",
        verdict="passed" if passed else "failed",
        judge_version="5",
        created_at=run.created_at,
        started_at=run.created_at,
        ended_at=run.ended_at,
    )
    gate, reason = dice.choice(FAILURES)
    if passed:
        evaluation.speedup, evaluation.low, evaluation.high = run.speedup, run.low, run.high
    else:
        evaluation.reason, evaluation.message = reason, gate
    return evaluation


def _gates(evaluation: Evaluation) -> Iterator[GateResult]:
    failed = False
    for name in GateName:
        if evaluation.scope == "round" and name == GateName.GENERALIZATION:
            return
        ends = evaluation.verdict != "passed" and name.value == evaluation.message
        verdict = "skipped" if failed else "failed" if ends else "passed"
        failed = failed or ends
        reason = evaluation.reason if ends else ""
        yield GateResult(evaluation=evaluation, gate=name.value, verdict=verdict, reason=reason)


def _measurements(dice: random.Random, evaluation: Evaluation) -> Iterator[Measurement]:
    """Return timings, also of failed verdicts, so that the number of rows is as it is asked for."""
    splits = ["seen"] * SEEN + ["unseen"] * (UNSEEN if evaluation.scope == "final" else 0)
    for number, split in enumerate(splits):
        speedup = (evaluation.speedup or 1.0) * dice.uniform(0.9, 1.1)
        yield Measurement(
            evaluation=evaluation,
            case=f"case-{number}",
            split=split,
            kind="nominal",
            dtype="float32",
            symbols={"n": 1024},
            baseline="compile",
            candidate_us=100 / speedup,
            baseline_us=100.0,
            speedup=speedup,
            low=speedup * 0.98,
            high=speedup * 1.02,
        )
