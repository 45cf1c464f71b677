"""Compile: builds the source in the sandbox, for a final verdict also what hidden cases need."""

from __future__ import annotations

from evaluation.errors import SubmissionError
from evaluation.kinds.kernel.builds import build, compile_cases, traveller
from evaluation.kinds.kernel.gates import Trial
from evaluation.kinds.kernel.gates.generalization import lasting_cases
from evaluation.kinds.kernel.machine_secret import machine_secret
from evaluation.types import GateName, GateResult, Reason, Verdict

NAME, ORDER, STAGE, HIDDEN = GateName.COMPILE, 20, "build", False


def judge(trial: Trial) -> GateResult:
    trial.build = build(
        trial.task, trial.task.track.target, trial.files, trial.cache, arrived=trial.arrived
    )
    if trial.final and trial.language.compiles_cases and not trial.untimed:
        hidden = lasting_cases(trial.task, machine_secret(trial.cache))
        trial.uses_hidden = True
        try:
            trial.compiled = compile_cases(trial.task, trial.files, trial.build, hidden)
        except SubmissionError as error:
            message = "the code that hidden cases need cannot be compiled within the limits"
            raise SubmissionError(Reason.HIDDEN_CASE, message) from error
    outputs, travels = trial.build.outputs, traveller(trial.build)
    warnings = sum(d.severity == "warning" for output in outputs for d in output.diagnostics)
    tools = ", ".join(f"{output.tool} for {output.arch}" for output in outputs)
    return GateResult(
        NAME,
        Verdict.PASSED,
        message=f"{tools}; {warnings} warnings" if outputs else "nothing to compile",
        passed=sum(output.ok for output in outputs),
        total=len(outputs),
        compiler=outputs,
        private={"artefact": travels} if travels else {},
    )
