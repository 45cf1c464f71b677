"""A campaign: generations judged on all devices of this machine, with a record for each.

Equal sources for one task are judged once. It may be ended at any moment and continued.
"""

from __future__ import annotations

import importlib.metadata
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from evaluation import JUDGE_VERSION
from evaluation.bench.devices import detect
from evaluation.bench.devices.device import Device
from evaluation.errors import TaskError
from evaluation.importers.generations import binding, records, verdicts
from evaluation.importers.generations.generation import Generation
from evaluation.importers.generations.tasks import Suites
from evaluation.importers.generations.verdicts import NOT_JUDGED, Job
from evaluation.judge.verdict_queue import VerdictQueue
from evaluation.types import Reason, to_json

NO_TASK = "NO_TASK"
OTHER_ARGUMENTS = "OTHER_ARGUMENTS"
"""Reason of a module that asks for what the problem does not give: it answers another one."""


@dataclass(frozen=True)
class Work:
    """A source to judge, and all generations that have it."""

    job: Job
    task: str
    generations: tuple[Generation, ...]


@dataclass
class Campaign:
    """Generations to judge, in their order, and what judges them."""

    generations: Sequence[Generation]
    suites: Suites
    cache: Path
    kind: str
    scope: str
    limit_seconds: float
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def work(self, known: set[tuple[Any, ...]]) -> tuple[list[Work], list[Generation]]:
        """Return the sources to judge in order, and the generations without a task.

        Those whose keys are `known` are left out.
        """
        by_source: dict[tuple[str, str, str], list[Generation]] = defaultdict(list)
        without = []
        for each in self.generations:
            if each.key in known:
                continue
            if task := self.suites.task(each):
                by_source[each.suite, task, each.sha256].append(each)
            else:
                without.append(each)
        return [
            Work(self.job(same[0]), task, tuple(same)) for (_, task, _), same in by_source.items()
        ], without

    def job(self, generation: Generation) -> Job:
        """Return what is to be judged for a generation that has a task."""
        root, task = self.suites.root(generation.suite), self.suites.task(generation)
        return Job(
            str(root.absolute()), task, generation.text, self.kind, str(self.cache), self.scope
        )

    def _has_other_interface(self, work: Work, written: records.RecordFile) -> bool:
        """Record a source whose module takes other arguments than the problem gives, as that."""
        try:
            found = binding.check_interface(work.job)
        except TaskError:  # its verdict says so
            return False
        if "takes other arguments" not in found.reason:
            return False
        judged = verdicts.unjudged(OTHER_ARGUMENTS, found.message)
        for generation in work.generations:
            written.add(records.record_of(generation, work.task, judged))
        return True

    def run(
        self,
        devices: Sequence[Device],
        output: Path,
        earlier: Sequence[records.Record],
        head: Mapping[str, Any],
        end: float,
        again: bool = False,
    ) -> records.RecordFile:
        """Judge what has no record in `earlier`, until `end`; return the file of records.

        What is judged once more comes last: failures of the judge, and `again` all without verdict.
        """
        head = {
            "judge_version": JUDGE_VERSION,
            "started_at": now(),
            **head,
            "ended_at": None,
            "fingerprint": fingerprint(devices),
        }
        written = records.RecordFile(output, head, earlier)
        work, without = self.work(
            {records.key_of(each) for each in earlier if is_final(each, again)}
        )
        tried = {records.key_of(each) for each in earlier}
        work.sort(key=lambda each: each.generations[0].key in tried)
        for each in without:
            judged = verdicts.unjudged(NO_TASK, self.suites.why_no_task(each))
            written.add(records.record_of(each, "", judged))
        work = [each for each in work if not self._has_other_interface(each, written)]
        progress = Progress(len(work), sys.stderr)

        def record(each: Work, result: Mapping[str, Any]) -> None:
            judged, spent = result["judged"], result.get("spent", {})
            with self._lock:
                for generation in each.generations:
                    written.add(records.record_of(generation, each.task, judged))
                progress.show(each.generations[0], judged, spent)

        VerdictQueue(
            devices,
            (
                sys.executable,
                "-m",
                "evaluation.importers.generations.judge_process",
                devices[0].kind,
            ),
            encode=lambda each: each.job.to_json(),
            build=_build,
            record=record,
            lost=lost,
            limit_seconds=self.limit_seconds,
            compiles=_compiles,
            subject=lambda each: (each.generations[0].suite, each.task),
            end=end,
        ).run(work)
        with self._lock:
            written.close(now())
        return written


def _build(work: Work) -> dict[str, Any] | None:
    return verdicts.build(work.job)


def _compiles(work: Work) -> bool:
    """Return whether a source takes a compiler, and is not refused before as no Python."""
    return work.generations[0].language == "cuda" and binding.is_python(work.job.text)


def lost(message: str, late: bool) -> dict[str, Any]:
    """Return the result of a source without a verdict; `late` if it took too long."""
    if late:
        message = f"{message}; --again judges it again, with a larger --limit"
    reason = verdicts.TIMEOUT if late else Reason.JUDGE_ERROR
    return {"judged": verdicts.unjudged(reason, message)}


def is_final(record: records.Record, again: bool = False) -> bool:
    """Return whether a generation need not be judged once more, or `again` has a verdict."""
    judged = record["judged"]
    if judged["status"] == "inconclusive":
        return not again and judged["reason"] != Reason.MACHINE_BUSY
    if judged["status"] == NOT_JUDGED:
        # A task may be there now, or the judge work.
        return not again and judged["reason"] in (verdicts.TIMEOUT, OTHER_ARGUMENTS)
    return True


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def fingerprint(devices: Sequence[Device]) -> dict[str, Any]:
    """Return what identifies these equal devices, their clocks, and the versions of libraries."""
    first = devices[0]
    found = {k: v for k, v in to_json(first.fingerprint).items() if k != "uuid"}
    versions = {name: importlib.metadata.version(name) for name in ("torch", "triton", "numpy")}
    return {"device": found, "count": len(devices), "now": detect.state(first), **versions}


@dataclass
class Progress:
    """Lines about verdicts, with the time that is left."""

    total: int
    stream: TextIO
    _started: float = field(default_factory=time.monotonic)
    _statuses: Counter[str] = field(default_factory=Counter)

    def show(
        self, generation: Generation, judged: Mapping[str, Any], spent: Mapping[str, float]
    ) -> None:
        """Print the verdict on a generation, and the seconds that each gate took."""
        self._statuses[judged["status"]] += 1
        done = self._statuses.total()
        seconds = (time.monotonic() - self._started) / done * (self.total - done)
        claim = generation.claim.speedup
        claimed = f", claimed {claim:.2f}x" if claim else ""
        speedup = f" {judged['speedup']:.2f}x" if judged["speedup"] else ""
        why = f" ({judged['reason']})" if judged["reason"] else ""
        took = "".join(f", {gate} {each:.1f} s" for gate, each in spent.items())
        print(
            f"{done}/{self.total}, {seconds / 60:.0f} min left: {generation.name}{claimed}: "
            f"{judged['status']}{speedup}{why}{took}",
            file=self.stream,
            flush=True,
        )


def summary(statuses: Mapping[str, int]) -> str:
    """Return the numbers of verdicts by status."""
    counts = sorted(statuses.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts)
