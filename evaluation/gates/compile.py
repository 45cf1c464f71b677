"""Compile: builds the source in the sandbox."""

from __future__ import annotations

from evaluation.gates import Trial
from evaluation.tracks.builds import build
from evaluation.types import GateName, GateResult, Verdict

NAME, ORDER, STAGE, HIDDEN = GateName.COMPILE, 20, "build", False


def judge(trial: Trial) -> GateResult:
    trial.build = build(trial.task, trial.task.track.target, trial.files, trial.cache)
    outputs = trial.build.outputs
    warnings = sum(d.severity == "warning" for output in outputs for d in output.diagnostics)
    tools = ", ".join(f"{output.tool} for {output.arch}" for output in outputs)
    return GateResult(
        NAME,
        Verdict.PASSED,
        message=f"{tools}; {warnings} warnings" if outputs else "nothing to compile",
        passed=sum(output.ok for output in outputs),
        total=len(outputs),
        compiler=outputs,
    )
