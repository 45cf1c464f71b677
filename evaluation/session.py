"""The judge of one submission: whom it starts, what it asks, what the answers are worth."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import torch

from evaluation import JUDGE_VERSION
from evaluation.anticheat import late_inputs, launch_order, staged_inputs
from evaluation.building.cache_folder import replace_text
from evaluation.device_kind import GPU, contestant_cores
from evaluation.devices import detect
from evaluation.devices.device import Device
from evaluation.memory.cuda_ipc import DeviceMemory
from evaluation.memory.layout import HostMemory
from evaluation.memory.ring import BufferRing, ring_slots, slot_bytes
from evaluation.memory.verify import compare
from evaluation.process.fork_server import ForkServer
from evaluation.process.handle import ProcessHandle
from evaluation.process.limits import ProcessLimits
from evaluation.sandbox import untrusted_files
from evaluation.tasks.input_families import families_for
from evaluation.tasks.spec import Operator, Task
from evaluation.timing import estimates
from evaluation.timing.clock import WindowClock
from evaluation.timing.estimates import Block
from evaluation.timing.window import LEAST_LAUNCHES, WindowTimer, unseen_ns
from evaluation.tracks.builds import Build
from evaluation.types import Case, Measurement, Split

COMPUTED_TWICE = 2
"""Of the inputs of a case, drawn in secret: the same values again, and the same answer wanted."""
CHOICE_WINDOWS = 5
WARM_SLOTS, WARM_WINDOWS, WARM_SECONDS = 2, 5, 0.006
"""Two slots stay in cache. They are written again and again, so not clocked by sight but longer."""
MOST_LAUNCHES = 4096
LAUNCH_NS, EFFICIENCY = 1500.0, 0.7
"""What the time of a launch is guessed from before there is any: its least, and a good kernel's
share of the roofline.
"""
SLOW_NS = 1e6
"""A launch that takes longer is told from a round trip by a window of its own."""
LONGER = 1.3
"""Windows longer or shorter than planned by no more than this stay as they are."""


@dataclass(frozen=True)
class _Take:
    """What one ring gave of a case; the candidate's timer runs no more."""

    blocks: list[Block]
    candidate: WindowTimer
    captured: bool
    eager: float | None


class MeasurementSession:
    """Holds the candidate, its baselines and the clock. A contestant is started when it is first
    needed, the baseline by `begin` before that.
    """

    device: Device
    """Known once it has met the candidate."""

    def __init__(
        self,
        task: Task,
        fork_server: ForkServer,
        baselines: Sequence[Build],
        cache: Path,
        seconds: dict[str, float] | None = None,
    ) -> None:
        """`seconds` is told what goes into starting contestants and what into windows."""
        self.task = task
        self._cache = cache
        self.operator: Operator = task.operator
        self.threads = len(contestant_cores())
        self.seconds = seconds if seconds is not None else {}
        self._memory = DeviceMemory() if task.kind == GPU else HostMemory()
        self._fork_server = fork_server
        self._builds = {build.name: build for build in baselines}
        self._arms: dict[str, ProcessHandle] = {}
        self._stack = ExitStack()
        self._alone = len(baselines) == 1
        self._preferred: str | None = baselines[0].name if self._alone else None

    def begin(self) -> None:
        """Start what can be before there is a candidate: the baseline, where there is but one."""
        if self._preferred:
            self.arm(self._preferred)

    def meet(self, candidate: Build, device: Device) -> Self:
        """From now on this is judged, there, and by the thread that calls this."""
        self.device = device
        # A team of threads would wait for whichever of them shares its core with someone else.
        torch.set_num_threads(1)
        self._builds["candidate"] = candidate
        self._witness = launch_order.OverlapDetector()
        return self

    def arm(self, name: str) -> ProcessHandle:
        """The contestant of that name, started and loaded."""
        if name not in self._arms:
            started = time.perf_counter()
            build = self._builds[name]
            scratch = build.scratch or self._stack.enter_context(untrusted_files.scratch())
            limits = self.operator.limits
            rights = ProcessLimits(
                folder=build.folder,
                scratch=scratch,
                memory_bytes=limits.memory_mb << 20,
                seconds=limits.seconds,
                threads=self.threads,
                trusted=build.trusted,
                compiles=build.trusted or build.compiles,
                kind=self.task.kind,
                environment=build.environment,
            )
            arm = self._stack.enter_context(ProcessHandle(self._fork_server, rights, WindowClock()))
            arm.load(build.language, build.folder, self.operator.name)
            self._arms[name] = arm
            self._spend("start", time.perf_counter() - started)
        return self._arms[name]

    def _spend(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def call(self, case: Case) -> None:
        """Stage one: it loads, has its entry point, and runs once. Raises SubmissionError."""
        with self._rig(case, slots=2, arms=1) as rig:
            candidate = self.arm("candidate")
            candidate.bind(self.operator.arguments, rig.regions(0), rig.values)
            rig.refill(0, 0, 2)
            candidate.run(0, 2)
            candidate.require_idle()

    def check(self, case: Case, thorough: bool = True) -> float:
        """Stage two on one case: every input family from secret seeds, through the same pointers.

        Where a call takes long, as in an interpreter, a check that is not `thorough` draws three
        families. Returns the largest error as a share of what is allowed.
        Raises SubmissionError.
        """
        worst = 0.0
        with self._rig(case, slots=1, arms=1) as rig:
            candidate = self.arm("candidate")
            candidate.bind(self.operator.arguments, rig.regions(0), rig.values)
            elements = sum(view.numel() for view in rig.inputs.slot(0).values())
            families = families_for(elements, thorough)
            twice = secrets.SystemRandom().sample(range(len(families)), COMPUTED_TWICE)
            for number, family in enumerate(families):
                where = f"case {case.name}, {family} inputs"
                inputs = rig.oracle.draw(family)
                truths = rig.oracle.truth(inputs)
                for _ in "ab" if number in twice else "a":
                    rig.place(inputs)
                    candidate.run(0, 1)
                    candidate.require_idle()
                    rig.untouched(inputs, where)
                    worst = max(worst, compare(rig.outputs[0].slot(0), truths, rig.secret, where))
        return worst

    def measure(self, case: Case, plan: estimates.Plan) -> Measurement:
        """Candidate against live baseline on one case. Raises SubmissionError when a timed output
        is wrong.
        """
        takes = self._takes(case, plan)
        candidate, eager = takes[-1].candidate, takes[-1].eager
        blocks = [block for take in takes for block in take.blocks]
        interval = estimates.speedup_of(blocks)
        candidate_ns = statistics.median(block.candidate for block in blocks)
        warm = self._warm(case, candidate, candidate_ns) if plan.every_regime else None
        baseline_ns = statistics.median(block.baseline for block in blocks)
        moved, flops = self.operator.module().cost(case)
        floor = self._floor_ns(case, candidate.rig.bytes)
        if candidate_ns < estimates.ROOFLINE_MARGIN * floor:
            self.device = detect.measured_again(self.device, self._cache)
            floor = self._floor_ns(case, candidate.rig.bytes)
        return Measurement(
            case=case.name,
            split=case.split,
            kind=case.kind,
            dtype=case.dtype,
            symbols=dict(case.symbols),
            baseline=self.baseline(),
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
            noisy=estimates.half_width(interval) > estimates.NOISY,
            eager_us=eager and eager / 1e3,
            captured=takes[-1].captured if self.task.kind == GPU else None,
        )

    def _takes(self, case: Case, plan: estimates.Plan) -> list[_Take]:
        """What each ring of a plan gave; of rings that disagree with one more, those that agree."""
        takes = [self._take(case, plan) for _ in range(plan.rings)]
        if estimates.apart([take.blocks for take in takes]) > estimates.APART:
            takes = _agreeing([*takes, self._take(case, plan)])
        return takes

    def _take(self, case: Case, plan: estimates.Plan) -> _Take:
        """Blocks of one case in one ring, and what is asked of the candidate beside them."""
        with self.bench(case, plan, ("candidate", self.baseline())) as (candidate, against):
            # What the candidate does on an empty trip is not given back to it.
            candidate.empty = against.empty = min(candidate.empty, against.empty)
            windows = [
                late_inputs.looked_at_between(timer, plan.looked_at_between, self._witness)
                for timer in (candidate, against)
            ]
            blocks = estimates.blocks(windows[0], windows[1], plan)
            unseen = unseen_ns(candidate, against)
            blocks = [Block(block.candidate + unseen, block.baseline) for block in blocks]
            for look in late_inputs.ways_to_look(candidate, self._witness) * plan.looked_at_after:
                look(candidate)
            staged_inputs.check(candidate, self._memory)
            candidate.rig.intact(candidate.region, candidate.where)
            captured = candidate.captured
            eager = candidate.eager() if captured and plan.every_regime else None
        return _Take(blocks, candidate, captured, eager)

    def _warm(self, case: Case, cold: WindowTimer, cold_ns: float) -> float:
        """Nanoseconds per launch when two slots go round."""
        launches = math.ceil(WARM_SECONDS * 1e9 / cold_ns)
        with self._rig(case, WARM_SLOTS, arms=1) as rig:
            timer = self._timer(rig, 0, "candidate", case)
            timer.capture(min(MOST_LAUNCHES, max(cold.launches, launches)))
            timer.empty = statistics.median(cold.besides)
            return statistics.median(timer.window() for _ in range(WARM_WINDOWS))

    def _floor_ns(self, case: Case, working_set: int) -> float:
        """Nanoseconds of the roofline of one launch."""
        module = self.operator.module()
        moved, flops = module.cost(case)
        unit = getattr(module, "UNIT", case.dtype)
        return self.device.roofline_seconds(moved, flops, working_set, unit) * 1e9

    def _rig(self, case: Case, slots: int, arms: int) -> BufferRing:
        return BufferRing(self.operator, case, slots, arms, self._memory)

    def _timer(self, rig: BufferRing, region: int, name: str, case: Case) -> WindowTimer:
        trusted, build = name != "candidate", self._builds[name]
        return WindowTimer(
            self.arm(name), rig, region, trusted, f"case {case.name}", build.discards
        )

    @contextmanager
    def bench(
        self, case: Case, plan: estimates.Plan, names: Sequence[str]
    ) -> Iterator[tuple[WindowTimer, ...]]:
        """Timers of these contestants over one ring, with as many launches a window each, so that
        what a window costs besides them weighs alike.

        The slower one's windows grow to at most four times what was planned.
        """
        settled = self._settled_graphs if self.task.kind == GPU else self._settled_calls
        with settled(case, plan, names) as timers:
            for timer in timers:
                timer.besides.clear()  # what went before was not measured
                timer.ready.clear()
            yield timers
            for timer in timers:
                self._spend("clocked", timer.clocked)

    @contextmanager
    def _settled_calls(
        self, case: Case, plan: estimates.Plan, names: Sequence[str]
    ) -> Iterator[tuple[WindowTimer, ...]]:
        slots = ring_slots(self.operator, case, 2 * self.device.last_level_cache_bytes)
        with self._rig(case, slots, arms=len(names)) as rig:
            timers = [self._timer(rig, i, name, case) for i, name in enumerate(names)]
            for timer in timers:
                timer.settle(plan.window_seconds)
            counts = [timer.count for timer in timers]
            for timer in timers:
                timer.resize(min(max(counts), 4 * timer.count))
            yield tuple(timers)

    @contextmanager
    def _settled_graphs(
        self, case: Case, plan: estimates.Plan, names: Sequence[str]
    ) -> Iterator[tuple[WindowTimer, ...]]:
        """A ring that outgrows the cache and takes a window's time with each slot launched once:
        at first guessed from the roofline, and made once more where the guess was too small.
        """
        guess = max(LAUNCH_NS, self._floor_ns(case, self.device.memory_bytes) / EFFICIENCY)
        slots = self._slots(case, plan, [guess] * len(names))
        for last in (False, True):
            with self._rig(case, slots, arms=len(names)) as rig:
                timers = [self._timer(rig, i, name, case) for i, name in enumerate(names)]
                once = [timer.window() for timer in timers]
                times = [ns if ns > SLOW_NS else guess for ns in once]
                launches = min(slots, self._slots(case, plan, times))
                times = [timer.capture(launches) for timer in timers]
                wanted = self._slots(case, plan, times)
                if last or wanted <= LONGER * slots:
                    if not launches / LONGER <= wanted <= launches * LONGER:
                        for timer in timers:
                            timer.capture(min(wanted, slots))
                    yield tuple(timers)
                    return
            slots = wanted
            guess = max(times)

    def _slots(self, case: Case, plan: estimates.Plan, times: Sequence[float]) -> int:
        """Launches of a window for contestants that take so many nanoseconds each; fewer where the
        device's memory is small.
        """
        launches = estimates.launches_for(times, plan.window_seconds)
        each, cache = slot_bytes(self.operator, case), self.device.last_level_cache_bytes
        # Where even the longest ring stays in the cache, a shorter one is as good.
        ring = 2 * cache if MOST_LAUNCHES * each > cache else 0
        most = max(2, self.device.memory_bytes // (4 * each * len(times)))
        return min(
            max(LEAST_LAUNCHES, math.ceil(launches), math.ceil(ring / each)), MOST_LAUNCHES, most
        )

    def baseline(self) -> str:
        """The name of the baseline to beat: of several the one with the least geomean time over the
        seen cases.

        Which that is, is measured once on a device, and kept.
        """
        if self._preferred is None:
            times = self.baseline_times()
            self._preferred = min(times, key=lambda name: times[name])
        return self._preferred

    def baseline_times(self) -> dict[str, float]:
        """Geomean microseconds over the seen cases of each of several baselines; none for one
        alone.

        Measured on this device, now or earlier, for whatever task they stand in.
        """
        if self._alone:
            return {}
        names, file = [n for n in self._builds if n != "candidate"], f"{self.operator.name}.py"
        sources = [(self._builds[name].folder / file).read_text("utf-8") for name in names]
        measured = sources, self.task.cases(Split.SEEN), dict(self.device.fingerprint)
        key = repr((JUDGE_VERSION, self.operator.arguments, *measured, torch.__version__))
        kept = self._cache / "baselines" / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.json"
        if kept.is_file():
            return dict(json.loads(kept.read_text()))
        trials = zip(*self._trial_times(names), strict=True)
        times = dict(zip(names, map(statistics.geometric_mean, trials), strict=True))
        for name in sorted(times, key=lambda name: times[name])[1:]:
            self._arms.pop(name).kill_and_wait()
        if "candidate" in self._arms:  # else it could decide what others are measured against
            self._arms["candidate"].check_suspended()
        kept.parent.mkdir(parents=True, exist_ok=True)
        replace_text(kept, json.dumps(times))
        return times

    def _trial_times(self, names: Sequence[str]) -> Iterator[list[float]]:
        """Microseconds of each of these on a case, by windows in turn: a machine that slows down
        slows them all.
        """
        plan = estimates.plan_for(self.task.kind, final=False)
        for case in self.task.cases(Split.SEEN):
            with self.bench(case, plan, names) as timers:
                turns = [[timer.window() for timer in timers] for _ in range(CHOICE_WINDOWS)]
            yield [statistics.median(windows) / 1e3 for windows in zip(*turns, strict=True)]

    def close(self) -> None:
        self._stack.close()
        self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _agreeing(takes: Sequence[_Take]) -> list[_Take]:
    """All but the one whose speedup lies furthest from that in the middle."""
    logs = [estimates.log_speedup(take.blocks) for take in takes]
    middle = statistics.median(logs)
    odd = max(range(len(takes)), key=lambda number: abs(logs[number] - middle))
    return [take for number, take in enumerate(takes) if number != odd]
