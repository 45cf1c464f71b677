"""Pipeline of a submission through the gates of its kind; a failed gate stops the rest."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation import JUDGE_VERSION
from evaluation.errors import NoIsolation
from evaluation.judge.report import failure
from evaluation.judge.request import Emit
from evaluation.sandbox.features import isolation_features
from evaluation.types import DURATION, GateName, GateResult, Report, Verdict

GOES_ON = (Verdict.PASSED, Verdict.SKIPPED, Verdict.SPECIALISED)
"""Verdicts of a last gate that do not decide by themselves."""
DECIDES = (GateName.COMPILE, GateName.CORRECTNESS)
"""Gates without which nothing was judged."""


@dataclass(frozen=True)
class Gate:
    """One judged step of a submission.

    `stage` is `build` (a CPU queue) or `measure` (the hardware's queue). `judge` raises
    SubmissionError for a faulty candidate.
    """

    name: GateName
    stage: str
    judge: Callable[[], GateResult]
    again: bool = False
    """True where the other stage runs it as well, and reports it only if it ends the rest."""


@dataclass
class Outcome:
    """The results of gates so far, the duration of each, and the start (`time.perf_counter`)."""

    results: list[GateResult] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)

    @property
    def last(self) -> GateResult:
        return self.results[-1]

    def run(
        self,
        gates: Iterable[Gate],
        stage: str,
        emit: Emit,
        failed: Callable[[GateName, Exception], GateResult] = failure,
        goes_on: Collection[Verdict] = (Verdict.PASSED,),
    ) -> None:
        """Run the gates of a stage; `emit` receives every result.

        `failed` is the result of a gate that raised. The next gate follows a verdict in `goes_on`.
        """
        for gate in gates:
            requested = stage in (gate.stage, "all")
            if not (requested or gate.again):
                continue
            started = time.perf_counter()
            try:
                result = gate.judge()
            except Exception as error:
                result = failed(gate.name, error)
            took = time.perf_counter() - started
            self.seconds[gate.name.value] = took
            if result.used_hidden:
                private = {**result.private, DURATION: took * 1e3}
                result = dataclasses.replace(result, private=private)
            else:
                result = dataclasses.replace(result, duration_ms=took * 1e3)
            ends = result.verdict not in goes_on
            if requested or ends:
                self.results.append(result)
                emit(result)
            if ends:
                break

    def report(
        self, task: str, task_hash: str, fingerprint: Mapping[str, Any], **measured: Any
    ) -> Report:
        """Return the report, with what was measured: fields of `Report`."""
        decisive = _decisive(self.results)
        return Report(
            task=task,
            task_hash=task_hash,
            judge_version=JUDGE_VERSION,
            verdict=decisive.verdict if decisive else Verdict.PASSED,
            reason=decisive.reason if decisive else None,
            message=(decisive or self.last).message,
            gates=tuple(self.results),
            fingerprint=fingerprint,
            seconds={**self.seconds, "total": time.perf_counter() - self.started},
            **measured,
        )


def _decisive(results: Sequence[GateResult]) -> GateResult | None:
    """Return the result that decides a verdict; None where it passed."""
    if results[-1].verdict not in GOES_ON:
        return results[-1]
    skipped = (each for each in results if each.verdict is Verdict.SKIPPED and each.gate in DECIDES)
    specialised = (each for each in results if each.verdict is Verdict.SPECIALISED)
    return next(skipped, None) or next(specialised, None)


def fingerprint(*libraries: str, **more: Any) -> dict[str, Any]:
    """Return versions and isolation features of a verdict, with what its kind adds."""
    return {
        "judge": JUDGE_VERSION,
        **more,
        "isolation": dataclasses.asdict(isolation_features()),
        "python": platform.python_version(),
        "kernel": platform.release(),
        **{name: importlib.metadata.version(name) for name in libraries},
    }


def require_isolation(unconfined: bool) -> None:
    """Require that untrusted code is isolated here, or that the machine's owner does without.

    Raises: NoIsolation.
    """
    if not (unconfined or isolation_features().any):
        raise NoIsolation(
            "this machine has neither namespaces nor Landlock, so it runs no untrusted code; its "
            "owner may set ARENA_UNCONFINED=1"
        )
