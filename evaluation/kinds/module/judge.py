"""Verdict on files with `ModelNew`: alone, end to end, decoy, times and ceiling, in order.

One file replaces the modules of one task. Several are judged together in one model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.bench.devices import detect
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.timing.disturbance import PATIENCE_SECONDS, Disturbance
from evaluation.code import build_cache
from evaluation.code.building import extensions, native, static_analysis
from evaluation.code.languages.cuda import RULES
from evaluation.device_kind import GPU, gpu_count
from evaluation.errors import (
    Broken,
    BuildError,
    Rejected,
    RequestError,
    SubmissionError,
)
from evaluation.judge.pipeline import Gate, Outcome, fingerprint, require_isolation
from evaluation.judge.report import failure, passed
from evaluation.judge.request import Emit, check_files
from evaluation.kinds.module import drops
from evaluation.kinds.module.architectures import COLLECTIVES, TRACK, Architecture, ModuleTask
from evaluation.kinds.module.composition import (
    COMPOSITION,
    Part,
    PartsFailed,
    attributed_to,
    causes,
    check_disjoint,
)
from evaluation.kinds.module.details import Errors, PhaseErrors
from evaluation.kinds.module.limits import Ratios, limits_of, no_limits
from evaluation.kinds.module.trial import Trial
from evaluation.sandbox.features import isolates_ranks
from evaluation.sandboxed.model.phases import Extent, Regime
from evaluation.types import (
    CompilerOutput,
    GateName,
    GateResult,
    Interval,
    Reason,
    Report,
    Verdict,
    to_json,
)

if TYPE_CHECKING:
    from evaluation.kinds.module.session import Built, LiveSession

EXEMPT = frozenset(
    {
        "torch.compile", "torch.utils.cpp_extension.load_inline", "torch.library",
        "torch.library.custom_op", "torch.library.triton_op", "torch.library.wrap_triton",
        "torch.library.register_fake", "torch.utils.cpp_extension", "torch.utils",
    }
)  # fmt: skip
DISTRIBUTED = frozenset(("torch.distributed", *(f"torch.distributed.{n}" for n in COLLECTIVES)))
"""Names of PyTorch that a module which is split over ranks may use as well."""
HOOKS = (
    "register_forward_hook", "register_forward_pre_hook", "register_module_forward_hook",
    "named_modules", "__class__",
)  # fmt: skip
"""Names by which a candidate would reach other modules. Security does not rest on this list."""
BUILD_SECONDS = 60.0


def judge(
    architecture: Architecture,
    parts: Sequence[Part],
    kind: str,
    cache: Path,
    measured: Extent,
    emit: Emit = lambda result: None,
    fork_server: ForkServer | None = None,
    unconfined: bool = False,
    *,
    stage: str = "all",
    final: bool = True,
) -> Report:
    """Judge a candidate; `emit` receives every gate's result.

    Stage `build` checks the rules and compiles native code, and imports no library. Stage
    `measure` does the rest, and reports the compile gate again with what was loaded. A machine
    without the library skips it. A `final` verdict has a speedup on unseen inputs. The gate that a
    composition fails names the tasks that cause it in its detail.

    Raises: RequestError where this machine cannot build the architecture, it has no limits on this
    kind of device, or one of several modules contains another.
    """
    name = parts[0].task.name if len(parts) == 1 else architecture.name
    missing = architecture.missing() or _missing_for_ranks(architecture, kind)
    if missing and stage == "all":
        raise RequestError(f"{name}: {missing}")
    if limits_of(architecture.name, kind) is None:
        raise RequestError(f"{name}: {no_limits(architecture.name, kind)}")
    outcome = Outcome()
    with ExitStack() as stack:

        def start(built: dict[str, Built]) -> Trial:
            from evaluation.kinds.module.session import LiveSession  # imports torch and a library

            server = fork_server or stack.enter_context(ForkServer())
            tasks = [part.task for part in parts]
            session = stack.enter_context(LiveSession(architecture, tasks, kind, server, cache))
            session.built = built
            return Trial(architecture, session, measured, Disturbance(PATIENCE_SECONDS[final]))

        candidate = _Candidate(architecture, parts, cache, unconfined, missing, start)
        outcome.run(candidate.gates(stage), stage, emit, _failed)
    device = {} if stage == "build" else detect.fingerprint(kind, cache)
    return report_of(architecture, parts, outcome, final, device)


def report_of(
    architecture: Architecture,
    parts: Sequence[Part],
    outcome: Outcome,
    final: bool,
    device: Mapping[str, Any],
) -> Report:
    """Return the report, whose speedup is the deployed one.

    Boards rank by the unseen speedup. Weights, inputs and noise are drawn anew for each verdict,
    so the deployed speedup of a final verdict is that on unseen inputs as well.
    """
    task, one, last = parts[0].task, len(parts) == 1, outcome.last
    detail = last.detail if last.gate is GateName.PERFORMANCE else {}
    deployed = Interval(**detail["deployed"]) if detail.get("deployed") else None
    libraries = ("torch", "triton", "numpy", architecture.library.replace("_", "-"))
    return outcome.report(
        f"{task.name}/{TRACK}" if one else f"{architecture.name}/{COMPOSITION}",
        architecture.task_hash(task) if one else architecture.hash,
        fingerprint(*libraries, architecture=architecture.hash, device=device),
        seen=deployed,
        unseen=deployed if final else None,
        noisy=bool(detail.get("noisy")),
    )


@dataclasses.dataclass
class _Candidate:
    """Files on their way through the gates, with the trial that they have once they are built."""

    architecture: Architecture
    parts: Sequence[Part]
    cache: Path
    unconfined: bool
    missing: str
    start: Callable[[dict[str, Built]], Trial]
    trial: Trial | None = None

    def gates(self, stage: str) -> list[Gate]:
        """Return the gates of a request: a build alone loads nothing."""
        compiling = Gate(GateName.COMPILE, "measure", self._prepare)
        if stage == "build":
            compiling = Gate(GateName.COMPILE, "build", self._compile_alone)
        return [
            Gate(
                GateName.INTEGRITY, "build", lambda: _integrity(self.parts, self.architecture.ranks)
            ),
            compiling,
            Gate(GateName.CORRECTNESS, "measure", lambda: _attributing(self._loaded(), _correct)),
            Gate(GateName.PERFORMANCE, "measure", lambda: _times(self._loaded())),
        ]

    def _compile_alone(self) -> GateResult:
        _, outputs = _built(self.parts, self.cache, self.unconfined)
        native_code = any(extensions.requested(part.files) for part in self.parts)
        message = "native code is compiled" if native_code else "valid Python"
        return _compiled(f"{message}; modules are loaded before they are measured", outputs)

    def _prepare(self) -> GateResult:
        if self.missing:
            return GateResult(GateName.COMPILE, Verdict.SKIPPED, Reason.NO_DEVICE, self.missing)
        built, outputs = _built(self.parts, self.cache, self.unconfined)
        self.trial = self.start(built)
        return _attributing(self.trial, lambda trial: _loaded(trial, outputs))

    def _loaded(self) -> Trial:
        assert self.trial is not None, "judged before it was built"
        return self.trial


def _missing_for_ranks(architecture: Architecture, kind: str) -> str:
    """Return why this machine cannot run the ranks of a model; empty where it can."""
    ranks = architecture.ranks
    if ranks == 1:
        return ""
    if kind == GPU and (count := gpu_count()) < ranks:
        return f"it takes {ranks} GPUs, and the judge sees {count} here"
    if not isolates_ranks():
        return "its ranks need namespaces for a network of their own, which do not work here"
    return ""


def _attributing(trial: Trial, run: Callable[[Trial], GateResult]) -> GateResult:
    """Run a step, and name the parts that cause a failure of several. Raises SubmissionError."""
    tasks = trial.session.tasks
    try:
        return run(trial)
    except SubmissionError as error:
        if len(tasks) == 1:
            raise

        def fails(some: Sequence[ModuleTask]) -> bool:
            trial.session.restrict(some)
            try:
                _loaded(trial, ())  # a step begins with the processes of the one before
                run(trial)
            except SubmissionError:
                return True
            return False

        raise PartsFailed(error, *causes(tasks, fails)) from error


def _built(
    parts: Sequence[Part], cache: Path, unconfined: bool
) -> tuple[dict[str, Built], tuple[CompilerOutput, ...]]:
    """Return the built candidate of each task. Raises NoIsolation, BuildError, PartsFailed."""
    require_isolation(unconfined)
    found: dict[str, Built] = {}
    outputs: tuple[CompilerOutput, ...] = ()
    for part in parts:
        with attributed_to(parts, part):
            found[part.task.name], more = build(part.files, part.task, cache)
            outputs += more
    return found, outputs


def _compiled(message: str, outputs: tuple[CompilerOutput, ...], **detail: int) -> GateResult:
    return passed(GateName.COMPILE, message, detail=detail, compiler=outputs)


def _failed(name: GateName, error: Exception) -> GateResult:
    """Return the result of a gate that raised. Raises RequestError."""
    if isinstance(error, RequestError):
        raise error
    if not isinstance(error, PartsFailed):
        return failure(name, error)
    result = failure(name, error.error)
    message = f"{result.message}; {error}"
    return dataclasses.replace(result, message=message, detail=error.detail)


def _integrity(parts: Sequence[Part], ranks: int) -> GateResult:
    """Return the result of the integrity gate. Raises SubmissionError, PartsFailed."""
    for part in parts:
        with attributed_to(parts, part):
            check_rules(part.files, part.task, ranks)
    return passed(GateName.INTEGRITY, "no rule violations found", len(parts))


def check_rules(files: Mapping[str, str], task: ModuleTask, ranks: int = 1) -> None:
    """Refuse plain violations of the rules. Raises SubmissionError.

    A module of several ranks may use collectives, and no native code: that could start multicast
    over NVLink, which can put the GPUs of a shared host out of service.
    """
    check_files(files, task.target_file)
    if len(files) > 1:
        raise SubmissionError(Reason.BAD_SOURCE, "a production task takes one file")
    for name, text in files.items():
        source = static_analysis.Source(name, text)
        modules = static_analysis.PURE_MODULES | {"torch", "triton"}
        static_analysis.check_source(
            source, modules, EXEMPT | (DISTRIBUTED if ranks > 1 else set())
        )
        for hook in HOOKS:
            if hook in text:
                raise Rejected("patching", f"{name}: `{hook}` reaches other modules of the model")
    if extensions.requested(files) and ranks > 1:
        raise Rejected("native", f"{task.name}: a module of several ranks takes no native code")
    if extensions.requested(files):
        native.check_rules(files, tuple(rule for rule in RULES if rule[0] != "library-wrapper"))


def build(
    files: Mapping[str, str], task: ModuleTask, cache: Path
) -> tuple[Built, tuple[CompilerOutput, ...]]:
    """Return the built candidate, from the cache if it is there. Raises BuildError."""
    from evaluation.kinds.module.session import Built

    is_native = extensions.requested(files)
    folder = build_cache.place(cache, files, TRACK, extensions.key() if is_native else "")

    def make(workshop: Path) -> Sequence[CompilerOutput]:
        if errors := static_analysis.syntax_errors(files):
            first = errors[0]
            message = f"not valid Python: {first.file}:{first.line}: {first.message}"
            raise BuildError(message, [])
        for name, text in files.items():
            (workshop / name).write_text(text, encoding="utf-8")
        source = workshop / task.target_file
        return (extensions.build(source, BUILD_SECONDS),) if is_native else ()

    outputs = build_cache.made(folder, make)
    entry = task.target_file.removesuffix(".py")
    return Built(folder, entry), outputs


def _loaded(trial: Trial, outputs: tuple[CompilerOutput, ...]) -> GateResult:
    """Start the candidate, whose modules replace the library's.

    Raises: SubmissionError; RequestError where one of several modules contains another.
    """
    from evaluation.sandboxed.model import swap
    from evaluation.sandboxed.model.models import module_class

    session = trial.session
    try:
        session.process("library")
    except SubmissionError as error:
        raise Broken(f"the judge's own model does not start: {error}") from error
    places = {task.name: swap.places(session.model, module_class(task)) for task in session.tasks}
    for task in session.tasks:
        if not places[task.name]:
            raise Broken(f"{trial.architecture.name} has no {task.module}")
    check_disjoint(places)
    process = session.process("candidate")
    reported = drops.Reported.of(process.reported)
    count = sum(map(len, places.values()))
    return _compiled(
        f"loaded; replaces {count} modules",
        outputs,
        modules=count,
        reported_modules=reported.swapped,
    )


def _correct(trial: Trial) -> GateResult:
    """Check the modules alone, then the model end to end, then the decoy.

    Raises: SubmissionError whose message names the step.
    """
    from evaluation.kinds.module import tape

    limits = limits_of(trial.architecture.name, trial.session.kind)
    assert limits is not None, "refused before"
    alone = [tape.check_alone(trial.session, task) for task in trial.session.tasks]
    count, worst = sum(each[0] for each in alone), max(each[2] for each in alone)
    untaped = [why for each in alone for why in each[1]]
    phases = _end_to_end(trial, limits)
    ratio = max(found.median for found in phases.values())
    return passed(
        GateName.CORRECTNESS,
        f"{count} taped cases, largest error {worst:.0%} of what is allowed; the model's error is "
        f"{ratio:.2f} times the baseline's, of {limits.median:.2f} allowed; the decoy equals the "
        "baseline bit for bit",
        count + len(phases),
        detail=to_json(Errors(tuple(untaped), worst, limits, phases)),
    )


def _end_to_end(trial: Trial, limits: Ratios) -> dict[str, PhaseErrors]:
    """Compare the model with the exact one, and the decoy with the baseline, in every phase.

    Returns: the error ratios of each phase. Raises: SubmissionError.
    """
    from evaluation.kinds.module import windows

    session = trial.session
    phases: dict[str, PhaseErrors] = {}
    for phase in trial.architecture.phases:
        memory = session.phase_memory(phase)
        try:
            pair = [
                windows.ModelWindows(session, mode, phase, memory, Regime.EAGER)
                for mode in ("candidate", "library")
            ]
            for _ in range(trial.extent.windows_of(phase, session.size.steps)):
                inputs = session.draw(phase)
                for each in pair:
                    each.bind()
                    each.run(inputs)
            phases[phase] = windows.check_budget(pair[0], pair[1], limits)
            _check_decoy(session, phase, memory, trial.extent.decoy_windows)
        finally:
            memory.close()
    session.end("decoy")
    return phases


def _check_decoy(session: LiveSession, phase: str, memory: Any, count: int) -> None:
    """Require the baseline's outputs, bit for bit, where a candidate is loaded and not put in."""
    from evaluation.kinds.module import budget, tape, windows
    from evaluation.sandboxed.model import models, swap

    for task in session.tasks:
        # The decoy is made with the arguments of the first module of the model.
        first = swap.places(session.model, models.module_class(task))[0]
        calls = tape.record(session, task, phase).calls
        for call in (call for call in calls if call.path == first):
            alone = tape.memory_of(session, call)
            try:
                process = session.bind("decoy", alone, Regime.EAGER)
                alone.write(0, call.slot)
                process.run(0, 1)
            finally:
                alone.close()
    pair = [
        windows.ModelWindows(session, mode, phase, memory, Regime.EAGER, repeatable=True)
        for mode in ("decoy", "library")
    ]
    for _ in range(count):
        inputs = session.draw(phase)

        def outputs(each: windows.ModelWindows, inputs: Any = inputs) -> budget.RankOutputs:
            each.bind()
            return each.run(inputs, fixed=True)[1]

        if differs := budget.lasting_difference(*(partial(outputs, each) for each in pair)):
            raise SubmissionError(
                Reason.FORBIDDEN,
                f"{phase}: the model's outputs differ while the candidate is loaded but not put "
                f"in; it changes other modules ({differs})",
            )


def _times(trial: Trial) -> GateResult:
    """Measure all phases and regimes, and the ceiling where the candidate is faster."""
    from evaluation.kinds.module.times import measured_times

    return measured_times(trial)
