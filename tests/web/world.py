"""A small arena for page tests: real tasks, runs in every state, planted held-out cases."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from arena.catalog import services as catalog
from arena.catalog.models import Operator, Task, TaskVersion
from arena.catalog.sync import sync_tasks
from arena.runs import services
from arena.runs.models import Run
from arena.runs.scoring import standings
from arena.runs.trace.events import EventDraft
from evaluation.tasks.spec import folder_of, self_tested
from evaluation.types import (
    CompilerOutput,
    Diagnostic,
    GateResult,
    Interval,
    Measurement,
    Report,
    Split,
)
from tests.arena import factories
from tests.web.profile import PROFILE

ROOT = Path(__file__).resolve().parent.parent.parent
HIDDEN = "hidden-zebra-case"
SECRET = 7919
LEASE = "worker-of-the-world"
GATES = ("integrity", "compile", "correctness", "performance", "generalization")
DEVICE = {
    "slug": "amd-epyc-9v74-2c",
    "kind": "cpu",
    "vendor": "AMD",
    "name": "AMD EPYC 9V74, 2 cores",
    "arch": "x86-64-v4",
    "queue": "hw.amd-epyc-9v74-2c",
    "peaks": {"copy_gbps": 21.4, "float32_tflops": 0.197, "float64_tflops": 0.098},
    "isolation": {
        "landlock": True,
        "user_ns": True,
        "net_ns": True,
        "seccomp": True,
        "cgroup": False,
    },
    "fingerprint": {
        "kernel": "6.8.0",
        "compiler": "g++ 12.2.0",
        "torch": "2.13.0",
        "governor": "unknown",
    },
}
OTHER = DEVICE | {
    "slug": "intel-xeon-8370c-4c",
    "vendor": "Intel",
    "name": "Intel Xeon 8370C, 4 cores",
    "queue": "hw.intel-xeon-8370c-4c",
    "peaks": {"copy_gbps": 33.9, "float32_tflops": 0.41},
}
AGENTS = (
    ("tuner", "Tuner", "Searches the tunables that a source declares and keeps the best.", 2.1),
    ("scripted", "Scripted", "Replays a recorded session.", 1.32),
    ("hill-climber", "Hill climber", "Changes one parameter at a time.", 1.9),
    ("cautious", "Cautious", "Submits the baseline with its loops reordered.", 1.02),
)


@cache
def tasks() -> TemporaryDirectory[str]:
    """Return a folder with links to the operators that have mutants, a tenth of all.

    To write all tasks takes ten seconds, more than most tests of pages.
    """
    folder = TemporaryDirectory(prefix="tasks-")
    for name in self_tested(ROOT / "tasks"):
        (Path(folder.name) / name).symlink_to(folder_of(ROOT / "tasks", name))
    return folder


_synced: dict[type[Operator | Task | TaskVersion], list[Any]] = {}
"""Rows of the tasks, once this process has written them: another test gets copies."""


def write_tasks() -> None:
    """Write the rows of the tasks into an empty catalogue."""
    if _synced:
        for model, rows in _synced.items():
            model.objects.bulk_create(rows)
        standings.touch()
        return
    sync_tasks(Path(tasks().name))
    for model in (Operator, Task, TaskVersion):
        _synced[model] = list(model.objects.all())


class World:
    """Builds runs through the services, as workers do, reproducibly from a seed."""

    def __init__(self, seed: int = 7) -> None:
        self.dice = random.Random(seed)

    def build(self) -> None:
        write_tasks()
        specs = [
            catalog.AgentSpec(slug, title, slug, description=text)
            for slug, title, text, _ in AGENTS
        ]
        catalog.sync_harnesses([catalog.HarnessSpec(slug, title) for slug, title, *_ in AGENTS])
        catalog.sync_agents(specs)
        for device in (DEVICE, OTHER):
            hardware = catalog.register_hardware(device)
            catalog.heartbeat_worker(
                f"{hardware.slug}-1", queues=[hardware.queue], pid=100, hardware=hardware
            )
        catalog.heartbeat_worker("build-1", queues=["build"], pid=101)
        catalog.heartbeat_worker("agents-1", queues=["agents"], pid=102)

    def board(self) -> None:
        """Build judged runs of every agent, most of them passed."""
        tasks = [task.slug for task in Task.objects.runnable().filter(track="cpp-to-cpp")]
        for slug, _, _, strength in AGENTS:
            for position, task in enumerate(tasks):
                if slug == "cautious" and position == 1:
                    self.failed(task, slug)
                elif slug == "scripted" and position == 2:
                    self.rejected(task, slug)
                else:
                    self.passed(task, slug, strength * self.dice.uniform(0.8, 1.4))
        self.passed(tasks[0], "tuner", 2.4, hardware=OTHER["slug"])

    def passed(self, task: str, agent: str, speedup: float, rounds: int = 6, **more: Any) -> Run:
        """Return a finished run whose second round failed and whose last is final."""
        run = self.start(task, agent, **more)
        for number in range(1, rounds + 1):
            reached = 1 + (speedup - 1) * (1 - math.exp(-number / 2)) * self.dice.uniform(0.85, 1.0)
            outcome = "failed" if number == 2 else "passed"
            submission = self.round(run, number, outcome, reached)
        evaluation = services.request_evaluation(submission, "final")
        self.judge(evaluation, "passed", speedup, final=True)
        run.refresh_from_db()
        return run

    def failed(self, task: str, agent: str) -> Run:
        run = self.start(task, agent)
        submission = self.round(run, 1, "uncompiled", 1.0)
        evaluation = services.request_evaluation(submission, "final")
        self.judge(evaluation, "uncompiled", 1.0, final=True)
        run.refresh_from_db()
        return run

    def rejected(self, task: str, agent: str) -> Run:
        run = self.start(task, agent)
        submission = self.round(run, 1, "rejected", 1.0)
        self.judge(services.request_evaluation(submission, "final"), "rejected", 1.0, final=True)
        run.refresh_from_db()
        return run

    def broken(self, task: str, agent: str) -> Run:
        run = self.start(task, agent)
        services.finish_run(
            run.pk, LEASE, "broken", "The worker was killed while it judged.", "arena"
        )
        run.refresh_from_db()
        return run

    def live(self, task: str, agent: str, rounds: int = 3) -> Run:
        """Return a run at work, between two rounds."""
        run = self.start(task, agent)
        for number in range(1, rounds + 1):
            self.round(run, number, "passed", 1 + number * 0.21)
        self.work(run, rounds + 1)
        run.refresh_from_db()
        return run

    def long(self, task: str, agent: str, events: int) -> Run:
        run = self.start(task, agent)
        for begin in range(0, events, 2000):
            drafts = []
            for number in range(begin, min(begin + 2000, events)):
                if number % 50 == 0:
                    body: dict[str, Any] = {
                        "span_kind": "turn",
                        "title": f"Turn {number // 50 + 1}",
                    }
                    drafts.append(EventDraft("span_begin", body, id=f"turn-{number}"))
                else:
                    text = f"line {number}: " + "tile " * (number % 23)
                    drafts.append(EventDraft("log", {"text": text}))
            services.record(run.pk, drafts, producer="world")
        run.refresh_from_db()
        return run

    def start(self, task: str, agent: str, hardware: str = DEVICE["slug"]) -> Run:
        run = services.start_run(task_slug=task, agent_slug=agent, hardware_slug=hardware)
        assert services.claim_run(run.pk, LEASE)
        return run

    def work(self, run: Run, number: int) -> None:
        """Yield one turn of an agent: it reasons, reads, edits and submits."""
        span = f"turn-{number}"
        block = 8 << (number % 4)
        diff = (
            "--- a/kernel.cpp\n+++ b/kernel.cpp\n@@ -9,3 +9,3 @@\n #include <cmath>\n"
            f"-#define LANES {block // 2}\n+#define LANES {block}\n float sum;\n"
        )
        call, edit = f"call-{number}", f"edit-{number}"
        drafts = [
            EventDraft("span_begin", {"span_kind": "turn", "title": f"Turn {number}"}, id=span),
            EventDraft(
                "message",
                {
                    "role": "assistant",
                    "model": "none",
                    "latency_ms": 1430.0,
                    "text": f"The sums wait for each other: {block} lanes hide that.",
                    "reasoning": "One dependency is carried; four cycles an addition, two ports.",
                },
                span=span,
            ),
            EventDraft(
                "tool_call",
                {"tool": "edit", "arguments": {"path": "kernel.cpp", "lanes": block}},
                id=edit,
                span=span,
            ),
            EventDraft(
                "file_edit", {"path": "kernel.cpp", "operation": "modify", "diff": diff}, span=span
            ),
            EventDraft(
                "tool_call",
                {
                    "tool": "arena-check",
                    "arguments": {"note": f"lanes {block}"},
                    "cwd": "workspace",
                },
                id=call,
                span=span,
            ),
        ]
        services.record(run.pk, drafts, producer="agent")

    def round(self, run: Run, number: int, outcome: str, speedup: float) -> Any:
        self.work(run, number)
        version = run.task_version.public
        target = version["target_file"]
        text = version["starter"][target] + f"\n// round {number}: lanes {8 << (number % 4)}\n"
        submission = services.submit(run.pk, {target: text}, note=f"lanes {8 << (number % 4)}")
        evaluation = services.request_evaluation(submission, "round")
        self.judge(evaluation, outcome, speedup)
        answer = {
            "tool": "arena-check",
            "call": f"call-{number}",
            "ok": outcome == "passed",
            "exit_code": 0 if outcome == "passed" else 1,
            "duration_ms": 2140.0,
            "output": f"{outcome}\nspeedup {speedup:.3f}\n",
        }
        drafts = [
            EventDraft("tool_result", answer, span=f"turn-{number}"),
            EventDraft("profiler_output", PROFILE, span=f"turn-{number}"),
            EventDraft(
                "span_end",
                {"span_kind": "turn", "ok": True, "duration_ms": 5210.0},
                span=f"turn-{number}",
            ),
        ]
        services.record(run.pk, drafts, producer="agent")
        return submission

    def judge(self, evaluation: Any, outcome: str, speedup: float, final: bool = False) -> None:
        factories.measure(evaluation, LEASE)
        report = self.report(evaluation, outcome, speedup, final)
        for result in report.gates:
            services.record_gate(evaluation.pk, LEASE, result)
        assert services.finish_evaluation(evaluation.pk, LEASE, report)

    def report(self, evaluation: Any, outcome: str, speedup: float, final: bool) -> Report:
        seen = [self.measured(case, speedup) for case in self.cases(evaluation)]
        hidden = [
            self.measured(
                {
                    "name": f"{HIDDEN}-{n}",
                    "kind": "edge",
                    "dtype": "float32",
                    "symbols": {"rows": SECRET},
                },
                speedup * 0.85,
                "unseen",
            )
            for n in range(3)
        ]
        gates = tuple(self.gates(outcome, seen, hidden, final))
        last = gates[-1]
        passed = outcome == "passed"
        version = evaluation.submission.run.task_version
        return Report(
            task=version.task.slug,
            task_hash=version.content_hash,
            judge_version="1",
            verdict=last.verdict,
            reason=last.reason,
            message="" if passed else last.message,
            gates=gates,
            seen=interval(speedup, 0.02) if passed else None,
            unseen=interval(speedup * 0.85, 0.04) if passed and final else None,
            roofline_share=min(0.18 * speedup, 0.97) if passed else None,
            noisy=False,
            aka_score=120 + 100 * speedup if passed else 0,
            fingerprint=DEVICE["fingerprint"],
            seconds={"measure": 2.1},
        )

    def gates(
        self, outcome: str, seen: list[Measurement], hidden: list[Measurement], final: bool
    ) -> Iterator[GateResult]:
        if outcome == "rejected":
            message = "line 14 calls clock_gettime, which this track forbids"
            yield gate("integrity", "rejected", "FORBIDDEN", message=message, rule="timer-call")
            return
        yield gate("integrity", duration_ms=3.2)
        compiler = CompilerOutput("g++", "x86-64", outcome != "uncompiled", 912.0, "")
        if outcome == "uncompiled":
            error = Diagnostic("kernel.cpp", 23, "error", "expected ';' before 'return'")
            text = "kernel.cpp:23:18: error: expected ';' before 'return'\n"
            compiler = replace(compiler, text=text, diagnostics=(error,))
            message = "kernel.cpp:23: expected ';' before 'return'"
            yield gate("compile", "failed", "BUILD_ERROR", message=message, compiler=(compiler,))
            return
        yield gate("compile", compiler=(compiler,), duration_ms=912.0)
        if outcome == "failed":
            message = f"case {seen[0].case}, element [3, 17]: expected 0.41372, got 0.41981"
            yield gate(
                "correctness",
                "failed",
                "WRONG_VALUES",
                message=message,
                passed=2,
                total=11,
                duration_ms=640.0,
            )
            return
        yield gate(
            "correctness",
            message="right on 11 cases, largest error 22 % of what is allowed",
            passed=11,
            total=11,
            duration_ms=780.0,
        )
        yield gate(
            "performance",
            measurements=tuple(seen),
            passed=len(seen),
            total=len(seen),
            duration_ms=1630.0,
        )
        if final:
            yield gate(
                "generalization",
                measurements=tuple(hidden),
                passed=12,
                total=12,
                duration_ms=4210.0,
            )

    def cases(self, evaluation: Any) -> list[dict[str, Any]]:
        cases = evaluation.submission.run.task_version.public["seen_cases"]
        return [case for case in cases if case["dtype"] == "float32"]

    def measured(self, case: dict[str, Any], speedup: float, split: str = "seen") -> Measurement:
        own = speedup * self.dice.uniform(0.8, 1.25)
        baseline = self.dice.uniform(30, 4000)
        return Measurement(
            case=case["name"],
            split=Split(split),
            kind=case["kind"],
            dtype=case["dtype"],
            symbols=case["symbols"],
            baseline="cpp",
            candidate_us=baseline / own,
            baseline_us=baseline,
            **asdict(interval(own, 0.03)),
            gbps=4.1 * own,
            tflops=0.012 * own,
            roofline_share=min(0.19 * own, 0.96),
            warm_us=baseline / own * 0.9,
            blocks=11,
            noisy=self.dice.random() < 0.06,
        )


def interval(speedup: float, width: float) -> Interval:
    return Interval(speedup, speedup * (1 - width), speedup * (1 + width))


def gate(*result: Any, **more: Any) -> GateResult:
    private = {"worst": {"case": HIDDEN, "rows": SECRET}}
    return factories.gate(*result, **{"private": private, **more})
