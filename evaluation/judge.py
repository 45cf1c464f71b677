"""The judge of one submission: whom it starts, what it asks, what the answers are worth."""

from __future__ import annotations

import hashlib
import json
import secrets
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import torch

from evaluation import clock, hardware
from evaluation.arm import Arm, Rights, Zygote, contestant_cores
from evaluation.builds import Build, replace_text
from evaluation.draw import FAMILIES
from evaluation.errors import Broken, SubmissionError
from evaluation.oracle import compare
from evaluation.rig import Rig, ring_slots
from evaluation.task import Operator, Task
from evaluation.types import Case, Measurement, Split

CHECK_SHARE = 5
"""At least one timed launch in so many has its values checked, drawn in secret."""
CHECK_SECONDS = 0.004
"""More are checked while that costs less than this for a window."""
SMALL_ELEMENTS = 1 << 19
ROOFLINE_MARGIN = 0.8
"""A time below this share of the roofline's is disputed: what is left allows for the error of the
measured peaks.
"""
CHOICE_WINDOWS = 3


class Judge:
    """Holds the candidate, its baselines and the clock. A contestant is started when it is first
    needed.
    """

    def __init__(
        self,
        task: Task,
        zygote: Zygote,
        candidate: Build,
        baselines: Sequence[Build],
        device: hardware.Device,
        cache: Path,
        seconds: dict[str, float] | None = None,
    ) -> None:
        """`seconds` is told what goes into starting contestants and what into windows."""
        self.task = task
        self._cache = cache
        self.operator: Operator = task.operator
        self.device = device
        self.threads = len(contestant_cores())
        # A team of threads would wait for whichever of them shares its core with someone else.
        torch.set_num_threads(1)
        self.seconds = seconds if seconds is not None else {}
        self._zygote = zygote
        self._builds = {"candidate": candidate, **{build.name: build for build in baselines}}
        self._arms: dict[str, Arm] = {}
        self._stack = ExitStack()
        self._preferred: str | None = baselines[0].name if len(baselines) == 1 else None

    def arm(self, name: str) -> Arm:
        """The contestant of that name, started and loaded."""
        if name not in self._arms:
            started = time.perf_counter()
            build = self._builds[name]
            scratch = build.scratch or Path(
                self._stack.enter_context(tempfile.TemporaryDirectory("-arena"))
            )
            limits = self.operator.limits
            rights = Rights(
                folder=build.folder,
                scratch=scratch,
                memory_bytes=limits.memory_mb << 20,
                seconds=limits.seconds,
                threads=self.threads,
                trusted=build.trusted,
                environment=build.environment,
            )
            arm = self._stack.enter_context(Arm(self._zygote, rights))
            arm.load(build.language, build.folder, self.operator.name)
            self._arms[name] = arm
            _add(self.seconds, "start", time.perf_counter() - started)
        return self._arms[name]

    def call(self, case: Case) -> None:
        """Stage one: it loads, has its entry point, and runs once. Raises SubmissionError."""
        with Rig(self.operator, case, slots=2, arms=1) as rig:
            candidate = self.arm("candidate")
            candidate.bind(self.operator.arguments, [rig.inputs, rig.outputs[0]], rig.values)
            rig.refill(0, 0, 2)
            candidate.run(0, 2)

    def check(self, case: Case, thorough: bool = True) -> float:
        """Stage two on one case: every input family from secret seeds, through the same pointers.

        Where a call takes long, as in an interpreter, a check that is not `thorough` draws three
        families and calls once for each. Returns the largest error as a share of what is allowed.
        Raises SubmissionError.
        """
        worst = 0.0
        with Rig(self.operator, case, slots=1, arms=1) as rig:
            candidate = self.arm("candidate")
            candidate.bind(self.operator.arguments, [rig.inputs, rig.outputs[0]], rig.values)
            for family in _families(rig, thorough):
                where = f"case {case.name}, {family} inputs"
                inputs = rig.oracle.draw(family)
                truths = rig.oracle.truth(inputs)
                for _ in range(
                    2
                ):  # the same values again: what was computed once must be computed twice
                    rig.place(inputs)
                    candidate.run(0, 1)
                    rig.untouched(inputs, where)
                    worst = max(worst, compare(rig.outputs[0].slot(0), truths, rig.secret, where))
        return worst

    def measure(self, case: Case, plan: clock.Plan) -> Measurement:
        """Candidate against live baseline on one case. Raises SubmissionError when a timed output
        is wrong.
        """
        slots = ring_slots(self.operator, case, 2 * self.device.last_level_cache_bytes)
        baseline = self.baseline()
        with Rig(self.operator, case, slots, arms=2) as rig:
            timer = _Timer(self, rig, 0, "candidate", case, plan)
            against = _Timer(self, rig, 1, baseline, case, plan)
            # A candidate that answers empty trips slowly must not be given that time back.
            timer.empty = against.empty = min(timer.empty, against.empty)
            _level(timer, against)
            blocks = self._blocks(timer, against, plan)
            warm = timer.warm()
        interval = clock.speedup_of(blocks)
        candidate_ns = statistics.median(block.candidate for block in blocks)
        baseline_ns = statistics.median(block.baseline for block in blocks)
        moved, flops = self.operator.module().cost(case)
        floor = self.device.roofline_seconds(moved, flops, rig.bytes) * 1e9
        if candidate_ns < ROOFLINE_MARGIN * floor:
            self.device = hardware.measured_again(self.device, self._cache)
            floor = self.device.roofline_seconds(moved, flops, rig.bytes) * 1e9
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
            warm_us=warm / 1e3,
            blocks=len(blocks),
            noisy=clock.half_width(interval) > clock.NOISY,
        )

    def _blocks(self, candidate: _Timer, baseline: _Timer, plan: clock.Plan) -> list[clock.Block]:
        blocks: list[clock.Block] = []
        ends = time.monotonic() + plan.most_seconds
        while len(blocks) < plan.most_blocks:
            a1, b1, b2, a2 = (
                timer.window() for timer in (candidate, baseline, baseline, candidate)
            )
            blocks.append(clock.Block((a1 + a2) / 2, (b1 + b2) / 2))
            if len(blocks) >= plan.least_blocks:
                narrow = clock.half_width(clock.speedup_of(blocks)) < plan.narrow
                if narrow or time.monotonic() > ends:
                    break
        return blocks

    def baseline(self) -> str:
        """The name of the baseline to beat: of several the one with the least geomean time over the
        seen cases.

        Which that is, is measured once for a task and a device, and kept.
        """
        if self._preferred is None:
            times = self.baseline_times()
            self._preferred = min(times, key=lambda name: times[name])
        return self._preferred

    def baseline_times(self) -> dict[str, float]:
        """Geomean microseconds over the seen cases of each of several baselines; none for one
        alone.

        Measured on this device, now or earlier.
        """
        if len(self._builds) == 2:
            return {}
        key = repr((self.task.hash, dict(self.device.fingerprint), torch.__version__))
        kept = self._cache / "baselines" / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.json"
        if kept.is_file():
            found: dict[str, float] = json.loads(kept.read_text())
            return found
        names = [name for name in self._builds if name != "candidate"]
        times = {name: statistics.geometric_mean(self._trial_times(name)) for name in names}
        for name in names:
            self._arms.pop(name).close()
        kept.parent.mkdir(parents=True, exist_ok=True)
        replace_text(kept, json.dumps(times))
        return times

    def _trial_times(self, name: str) -> Iterator[float]:
        for case in self.task.cases(Split.SEEN):
            slots = ring_slots(self.operator, case, 2 * self.device.last_level_cache_bytes)
            with Rig(self.operator, case, slots, arms=1) as rig:
                timer = _Timer(self, rig, 0, name, case, clock.QUICK_PLAN)
                yield statistics.median(timer.window() for _ in range(CHOICE_WINDOWS)) / 1e3

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Timer:
    """Windows of one arm on one case."""

    def __init__(
        self, judge: Judge, rig: Rig, region: int, name: str, case: Case, plan: clock.Plan
    ) -> None:
        self.rig, self.region, self.case, self.seconds = rig, region, case, judge.seconds
        self.trusted = name != "candidate"
        self.arm = judge.arm(name)
        with _blame(self.trusted):
            self.arm.bind(judge.operator.arguments, [rig.inputs, rig.outputs[region]], rig.values)
            self.empty = min(self.arm.run(0, 0) for _ in range(clock.EMPTY_TRIPS))
        self.count = 1
        self.window()  # the first call pays for pages and lazy set-up
        target = plan.window_seconds * 1e9
        while (took := self.window() * self.count) < target / 2 and self.count < rig.slots:
            self.count = min(
                rig.slots, max(self.count * 2, int(self.count * target / max(took, target / 8)))
            )
        self.count = max(1, min(rig.slots, round(self.count * target / took)))

    def window(self) -> float:
        """Nanoseconds per launch of one window on fresh inputs; the candidate's outputs are
        checked.
        """
        first = secrets.randbelow(self.rig.slots)
        self.rig.refill(self.region, first, self.count)
        with _blame(self.trusted):
            elapsed = self.arm.run(first, self.count)
        _add(self.seconds, "clocked", elapsed / 1e9)
        if not self.trusted:
            cheap = int(CHECK_SECONDS / self.rig.check_seconds)
            sample = max(-(-self.count // CHECK_SHARE), cheap)
            self.rig.verify(self.region, first, self.count, sample, f"case {self.case.name}")
        return clock.less_empty(elapsed, self.empty) / self.count

    def warm(self) -> float:
        """Nanoseconds per launch when two slots go round, so that a small case stays in cache."""
        count = self.count
        self.count = min(2, self.rig.slots)
        times = [self.window() for _ in range(5)]
        self.count = count
        return statistics.median(times)


def _level(left: _Timer, right: _Timer) -> None:
    """Give both arms as many launches a window, so that what a window costs besides them weighs
    alike.

    The slower arm's windows grow to at most four times what was planned.
    """
    most = max(left.count, right.count)
    left.count, right.count = min(most, 4 * left.count), min(most, 4 * right.count)


def _add(seconds: dict[str, float], name: str, more: float) -> None:
    seconds[name] = seconds.get(name, 0.0) + more


@contextmanager
def _blame(trusted: bool) -> Iterator[None]:
    """What fails in a baseline is our fault, not the candidate's."""
    try:
        yield
    except SubmissionError as error:
        if trusted:
            raise Broken(f"the baseline failed: {error}") from error
        raise


def _families(rig: Rig, thorough: bool) -> list[str]:
    """Every family and five nominal seeds; for a large case three families, drawn in secret."""
    small = sum(view.numel() for view in rig.inputs.slot(0).values()) <= SMALL_ELEMENTS
    if small and thorough:
        return [*FAMILIES, *FAMILIES[:1] * 4]
    return [FAMILIES[0], *secrets.SystemRandom().sample(FAMILIES[1:], 2)]
