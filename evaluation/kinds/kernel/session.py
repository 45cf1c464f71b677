"""Measurement session of one submission: its processes, their calls and their times."""

from __future__ import annotations

import math
import secrets
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Self

import torch

from evaluation.bench.devices import detect
from evaluation.bench.devices.device import Device
from evaluation.bench.memory.cuda_ipc import DeviceMemory
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.ring import BufferRing
from evaluation.bench.memory.verify import compare_launches
from evaluation.bench.memory.workload import Workload, slot_bytes
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.handle import ProcessHandle
from evaluation.bench.process.limits import ProcessLimits
from evaluation.bench.timing import estimates
from evaluation.bench.timing.clock import WindowClock
from evaluation.bench.timing.disturbance import Disturbance
from evaluation.bench.timing.estimates import Blocks
from evaluation.bench.timing.plan import Plan, plan_for
from evaluation.bench.timing.window import WindowTimer
from evaluation.bench.turns import MAX_LAUNCHES, Bench, Entrant, Timers
from evaluation.code.languages import languages
from evaluation.device_kind import GPU, candidate_cores
from evaluation.errors import Broken, SubmissionError, Unsupported
from evaluation.kinds.kernel import control
from evaluation.kinds.kernel.baselines import BaselineTimes, cached_times
from evaluation.kinds.kernel.builds import Build
from evaluation.kinds.kernel.case_failures import failures_named, names_case
from evaluation.kinds.kernel.rules import kept_rules
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.sandbox import untrusted_files
from evaluation.shapes import tensor_bytes
from evaluation.tasks.input_families import families_for
from evaluation.tasks.operator import TF32, Operator
from evaluation.tasks.reference import Tensors
from evaluation.tasks.spec import Task
from evaluation.types import Case, Interval, Measurement, Split

TF32_LIKE = "bfloat16_tflops"
"""The peak that that of TensorFloat-32 follows from."""
COMPUTED_TWICE = 2
"""Number of input families, drawn in secret, that are computed once more on other values."""
CHECKED_TOGETHER, MAX_CHECKED_BYTES = 5, 1 << 30
"""Launches of one request of a check on a GPU, and bytes of their tensors; one launch in any case.
Their inputs lie there twice: as they were drawn, and in the memory that is shared.
"""
CHOICE_WINDOWS = 5
WARM_SLOTS, WARM_WINDOWS, WARM_SECONDS = 2, 5, 0.006
"""Two slots stay in the cache. The GPU clock cannot observe them, so their windows are longer."""
EFFICIENCY = 0.7
"""The first guess of a launch time on a GPU is the roofline time over this share."""


class MeasurementSession:
    """Runs and times one candidate and its baselines. A process starts when it is first needed."""

    device: Device
    """Set by `set_candidate`."""

    def __init__(
        self,
        task: Task,
        fork_server: ForkServer,
        baselines: Sequence[Build],
        cache: Path,
        seconds: dict[str, float] | None = None,
        disturbance: Disturbance | None = None,
    ) -> None:
        """Prepare a session. `seconds` receives the time spent on process starts and in windows.

        Without a `disturbance` it never waits for a quiet machine.
        """
        self.task = task
        self.disturbance = disturbance or Disturbance(0.0)
        self._cache = cache
        self.operator: Operator = task.operator
        self.threads = len(candidate_cores())
        self.seconds = seconds if seconds is not None else {}
        self._memory = DeviceMemory() if task.kind == GPU else HostMemory()
        self._fork_server = fork_server
        self._baselines = baselines
        self._builds = {build.name: build for build in baselines}
        self._processes: dict[str, ProcessHandle] = {}
        self._bench = Bench(self._memory, self.disturbance.tolerant)
        self.measured_cases: dict[str, Case] = {}
        """Cases that were measured, by name."""
        self._seed = secrets.randbits(63) if task.operator.weights else None
        """Seed of the weights of a suite's module, which are new in each verdict."""
        self._compiled: Path | None = None
        self._stack = ExitStack()
        self._stack.callback(self._memory.close)
        self._preferred: str | None = baselines[0].name if len(baselines) == 1 else None

    def prepare(self) -> None:
        """Start what needs no candidate: the only baseline, and PyTorch on a GPU.

        There the first expected outputs of a process take a second more than later ones.
        """
        if self._preferred:
            self.process(self._preferred)
        if self.task.kind == GPU:
            case = self.task.checked_cases()[0]
            workload = self._workload(case)
            with failures_named(case), BufferRing(workload, 2, self._memory) as ring:
                ring.refill(0, 2)
                ring.poll()
                workload.reference.expected(workload.reference.draw())

    def set_candidate(self, candidate: Build, device: Device) -> Self:
        """Judge this candidate on this device, in the calling thread."""
        self.device = device
        # Several threads would wait for the one that shares its core with another process.
        torch.set_num_threads(1)
        self._builds["candidate"] = candidate
        return self

    def add_build(self, name: str, like: str) -> None:
        """Let a further process have the build of the one called `like`."""
        self._builds[name] = self._builds[like]

    def end_process(self, name: str) -> None:
        """End a process, if it was started; the next use starts another."""
        if name in self._processes:
            self._processes.pop(name).kill_and_wait()

    def process(self, name: str) -> ProcessHandle:
        """Return the process of this name, started and loaded."""
        if name not in self._processes:
            started = time.perf_counter()
            build = self._builds[name]
            scratch = build.scratch or self._stack.enter_context(untrusted_files.scratch())
            limits = ProcessLimits(
                folder=build.folder,
                scratch=scratch,
                memory_bytes=self.operator.limits.memory_mb << 20,
                seconds=self.operator.limits.seconds,
                threads=self.threads,
                trusted=build.trusted,
                compiles=build.trusted or build.compiles,
                kind=self.task.kind,
                environment=build.environment,
            )
            process = ProcessHandle(self._fork_server, limits, WindowClock())
            self._stack.enter_context(process)
            tf32 = self.operator.precision == TF32
            process.load(build.language, build.folder, self.operator.name, tf32)
            further = self._compiled if name == "candidate" else build.further
            if further:
                process.add_compiled(further)
            self._processes[name] = process
            self._spend("start", time.perf_counter() - started)
        return self._processes[name]

    def add_compiled(self, folder: Path) -> None:
        """Give the candidate what was compiled for further cases."""
        self._compiled = folder
        if "candidate" in self._processes:
            self._processes["candidate"].add_compiled(folder)

    def _spend(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    @names_case
    def call(self, case: Case) -> None:
        """Load the candidate, find its entry point and run it once. Raises SubmissionError."""
        with BufferRing(self._workload(case), 2, self._memory) as ring:
            candidate = self.process("candidate")
            ring.bind(candidate)
            ring.refill(0, 2)
            candidate.run(0, 2)
            candidate.require_idle()

    @names_case
    def check(self, case: Case, thorough: bool = True) -> float:
        """Check the candidate's outputs on one case, with every input family from secret seeds.

        Some families are drawn twice. Requests use the same memory, so that no result can be kept
        by its pointers. A check that is not `thorough` draws three families, one at a time, for
        calls that take long, as in an interpreter.

        Returns: the largest error as a share of the allowed error.
        Raises: SubmissionError.
        """
        workload = self._workload(case)
        worst, slots = 0.0, checked_together(workload) if thorough else 1
        reference = workload.reference
        with BufferRing(workload, slots, self._memory) as ring:
            candidate = self.process("candidate")
            ring.bind(candidate)
            elements = sum(view.numel() for view in ring.inputs.slot(0).values())
            families = families_for(elements, thorough, self.operator.input_families)
            twice = min(COMPUTED_TWICE, len(set(families)))
            families += secrets.SystemRandom().sample(families, twice)
            for first in range(0, len(families), slots):
                some = families[first : first + slots]
                inputs = [reference.draw(family) for family in some]
                outputs = self._outputs_of(candidate, ring, inputs)
                ring.check_written(inputs, f"case {case.name}")
                where = [f"case {case.name}, {family} inputs" for family in some]
                worst = max(worst, compare_launches(reference, inputs, outputs, ring.secret, where))
        return worst

    @names_case
    def kept_rules(self, case: Case) -> list[str]:
        """Return the rules of precision that the candidate keeps on inputs as its suite draws them.

        Raises: SubmissionError.
        """
        workload = self._workload(case)
        with BufferRing(workload, 1, self._memory) as ring:
            candidate = self.process("candidate")
            ring.bind(candidate)
            inputs = workload.reference.draw()
            (outputs,) = self._outputs_of(candidate, ring, [inputs])
            return kept_rules(workload.reference, inputs, outputs)

    @staticmethod
    def _outputs_of(
        candidate: ProcessHandle, ring: BufferRing, inputs: Sequence[Tensors]
    ) -> list[Tensors]:
        """Launch a candidate once on each of these inputs, and return the outputs in the ring."""
        ring.write(inputs)
        candidate.run(0, len(inputs))
        candidate.require_idle()
        return [ring.outputs.slot(slot) for slot in range(len(inputs))]

    @names_case
    def measure(self, case: Case, plan: Plan, baseline: str = "") -> Measurement:
        """Measure the candidate against a live baseline on one case.

        Where other work on the machine disturbs nearly all windows, it is measured once more after
        a wait for a quiet machine.

        Raises: SubmissionError; Inconclusive.
        """
        baseline = baseline or self.baseline()
        while True:
            started = time.perf_counter()
            with self.bench(case, plan, ("candidate", baseline)) as (candidate, against):
                if self.task.kind == GPU:
                    require_named_kernels(self._builds["candidate"].language, candidate)
                    plan = plan.for_windows(against.launch_ns * against.launches / 1e9)
                gbps = self.device.peaks["memory_gbps"]
                found = self._bench.judged_blocks(candidate, against, plan, gbps)
                if enough := len(found.counted) >= plan.min_blocks:
                    captured = candidate.captured
                    eager = candidate.eager() if captured and plan.every_regime else None
            if enough:
                break
            self.disturbance.require_quiet(found.text, time.perf_counter() - started)
        blocks = found.counted
        self.measured_cases[case.name] = case
        interval = estimates.speedup_of(blocks, plan.spread)
        candidate_ns = statistics.median(block.candidate for block in blocks)
        warm = self._warm(case, candidate, candidate_ns) if plan.every_regime else None
        baseline_ns = statistics.median(block.baseline for block in blocks)
        moved, flops = self.operator.code().cost(case)
        floor = self._floor_ns(case, candidate.ring.bytes)
        if candidate_ns < estimates.ROOFLINE_MARGIN * floor:
            self.device = detect.measure_again(self.device, self._cache)
            floor = self._floor_ns(case, candidate.ring.bytes)
        return Measurement(
            case=case.name,
            split=case.split,
            kind=case.kind,
            dtype=case.dtype,
            symbols=dict(case.symbols),
            baseline=baseline,
            candidate_us=candidate_ns / 1e3,
            baseline_us=baseline_ns / 1e3,
            speedup=interval.speedup,
            low=interval.low,
            high=interval.high,
            gbps=moved / candidate_ns,
            tflops=flops / candidate_ns / 1e3,
            roofline_share=floor / candidate_ns,
            warm_us=warm and warm / 1e3,
            blocks=len(blocks),
            noisy=found.is_noisy(interval, self.disturbance.tolerant),
            eager_us=eager and eager / 1e3,
            captured=captured if self.task.kind == GPU else None,
            memory_bytes=candidate.memory_bytes,
            baseline_memory_bytes=against.memory_bytes,
        )

    def measure_blocks(self, candidate: WindowTimer, against: WindowTimer, plan: Plan) -> Blocks:
        """Measure blocks of two timers over one ring."""
        return self._bench.blocks(candidate, against, plan)

    def measure_control(self, measured: Sequence[Measurement]) -> Interval:
        """See `control.measure_control`."""
        return control.measure_control(self, measured)

    def _warm(self, case: Case, cold: WindowTimer, cold_ns: float) -> float:
        """Return the nanoseconds per launch with warm caches, between two slots in turn."""
        launches = math.ceil(WARM_SECONDS * 1e9 / cold_ns)
        with BufferRing(self._workload(case), WARM_SLOTS, self._memory) as ring:
            timer = self._bench.timer(ring, self._entrant("candidate"), f"case {case.name}")
            timer.capture(min(MAX_LAUNCHES, max(cold.launches, launches)))
            timer.empty = statistics.median(cold.overhead)
            return statistics.median(timer.window() for _ in range(WARM_WINDOWS))

    def _floor_ns(self, case: Case, working_set: int) -> float:
        """Return the roofline time of one launch in nanoseconds.

        Weights are the same in all launches, so that they may stay in a cache.
        """
        code = self.operator.code()
        moved, flops = code.cost(case)
        moved -= tensor_bytes(self.operator.weights, case)
        unit = code.unit(case)
        if self.operator.precision == TF32 and TF32_LIKE in self.device.peaks:
            unit, flops = "bfloat16", 2 * flops  # tensor cores are half as fast in TensorFloat-32
        flops = self.operator.least_operations(flops)
        return self.device.roofline_seconds(moved, flops, working_set, unit) * 1e9

    def _workload(self, case: Case) -> OperatorWorkload:
        return OperatorWorkload(self.operator, case, self._memory.device, self._seed)

    @contextmanager
    def bench(self, case: Case, plan: Plan, names: Sequence[str]) -> Timers:
        """Yield timers of these processes over one ring; see `Bench.timers`."""
        entrants = [self._entrant(name) for name in names]
        guess = self._floor_ns(case, self.device.memory_bytes) / EFFICIENCY
        where = f"case {case.name}"
        with (
            failures_named(case),
            self._bench.timers(
                self._workload(case), self.device, plan, entrants, where, guess
            ) as timers,
        ):
            yield timers
            for timer in timers:
                self._spend("clocked", timer.seconds)

    def _entrant(self, name: str) -> Entrant:
        return Entrant(self.process(name), name != "candidate", self._builds[name].discards)

    def baseline(self) -> str:
        """Return the name of the baseline to beat: the one with the least time."""
        if self._preferred is None:
            times = self.baseline_times().us
            self._preferred = min(times, key=lambda name: times[name])
        return self._preferred

    def copying_baseline(self) -> str:
        """Return the name of the baseline to beat with its results copied as the candidate's are.

        It is empty where the candidate fills its outputs, or the baseline does.
        """
        copying = self._builds[self.baseline()].copying
        if copying is None or not self._builds["candidate"].returns:
            return ""
        self._builds[copying.name] = copying
        return copying.name

    def baseline_times(self) -> BaselineTimes:
        """Return the times of the baselines; none where there is only one."""
        if len(self._baselines) == 1:
            return BaselineTimes()
        return cached_times(
            self._cache, self.task, self.device, self._baselines, self._measured_baselines
        )

    def _measured_baselines(self) -> BaselineTimes:
        """Measure `baseline_times`, and end all baselines but the fastest.

        One that fails, such as a reference that PyTorch cannot compile, is none to beat.
        Raises: Broken where all of them fail.
        """
        left_out = self._wrong_baselines()
        names = [build.name for build in self._baselines if build.name not in left_out]
        try:
            times = self._geomean_times(names)
        except Broken as broken:
            times = {}
            for name in names:
                try:
                    times |= self._geomean_times([name])
                except Broken:
                    left_out[name] = "it does not run"
            if not times:
                raise broken
        best = min(times, key=lambda name: times[name])
        for name in self._processes.keys() & set(names) - {best}:
            self._processes.pop(name).kill_and_wait()
        if "candidate" in self._processes:  # it must not have slowed a baseline
            self._processes["candidate"].check_suspended()
        return BaselineTimes(times, left_out)

    def _wrong_baselines(self) -> dict[str, str]:
        """Return the baselines that a compiler made wrong by name, with the first wrong value.

        They are wrong on the largest seen case, where the first one, in eager, is right.
        """
        eager, *compiled = self._baselines
        case = max(self.task.cases(Split.SEEN), key=self.operator.elements)
        workload = self._workload(case)
        own = type(self._memory)()  # the candidate has that of the session mapped
        with failures_named(case), closing(own), BufferRing(workload, 1, own) as ring:
            inputs = [workload.reference.draw()]

            def why_wrong(baseline: Build) -> str:
                """Return how its copied results are wrong; nothing where they cannot be had."""
                if (copying := baseline.copying) is None:
                    return ""
                self._builds[copying.name] = copying
                try:
                    ring.bind(process := self.process(copying.name))
                    outputs = self._outputs_of(process, ring, inputs)
                except (Broken, SubmissionError):
                    return ""
                finally:
                    self.end_process(copying.name)
                try:
                    compare_launches(workload.reference, inputs, outputs, ring.secret, [""])
                except SubmissionError as error:
                    return f"case {case.name}: {error}"
                return ""

            wrong = {build.name: why for build in compiled if (why := why_wrong(build))}
            if wrong and why_wrong(eager):
                wrong = {}
        return wrong

    def _geomean_times(self, names: Sequence[str]) -> dict[str, float]:
        trials = zip(*self.trial_times(names), strict=True)
        return dict(zip(names, map(statistics.geometric_mean, trials), strict=True))

    def trial_times(self, names: Sequence[str]) -> Iterator[list[float]]:
        """Yield the microseconds of each of these baselines on each seen case.

        Their windows alternate, so that a machine that slows down slows all of them.
        """
        plan = plan_for(self.task.kind, final=False)
        for case in self.task.cases(Split.SEEN):
            with self.bench(case, plan, names) as timers:
                turns = [[timer.window() for timer in timers] for _ in range(CHOICE_WINDOWS)]
            yield [statistics.median(windows) / 1e3 for windows in zip(*turns, strict=True)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """End all processes, then free the memory that they share."""
        self._stack.close()


def checked_together(workload: Workload) -> int:
    """Return the launches of one request of a check.

    On a CPU memory of many slots takes longer to make than more requests do.
    """
    if workload.device.type == "cpu":
        return 1
    return max(1, min(CHECKED_TOGETHER, MAX_CHECKED_BYTES // slot_bytes(workload)))


def require_named_kernels(
    language: str, timer: WindowTimer, nvidia: bool = bool(torch.version.cuda)
) -> None:
    """Refuse launches whose kernels nobody names, where they must be those of the source.

    A captured graph names them. AMD's are not named at all. To wait for the GPU breaks no rule.
    Raises: Unsupported.
    """
    if timer.captured or not nvidia or not languages()[language].own_kernels:
        return
    raise Unsupported(
        f"{timer.where}: no CUDA graph can hold a launch, so nothing shows whose kernels it runs; "
        f"host code may not wait for the GPU, as `.item()` does: {timer.process.refusal[:200]}"
    )
