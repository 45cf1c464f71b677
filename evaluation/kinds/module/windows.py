"""Windows of a live model: one launch on fresh secret inputs, timed by the judge and checked.

They are apart from the windows of `bench.turns`: a decode has an untimed prefill between its inputs
and its noise, and errors are ratios over many windows, by models of the judge's own. One window for
both would need more code than the two have.
"""

from __future__ import annotations

import dataclasses
import secrets
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch

from evaluation.bench.anticheat import staged_inputs
from evaluation.bench.anticheat.late_inputs import LateInputs
from evaluation.bench.anticheat.staged_inputs import ARRIVING
from evaluation.bench.process.handle import no_sampling
from evaluation.bench.timing import estimates
from evaluation.bench.timing.estimates import Block
from evaluation.bench.timing.plan import Plan, Spread
from evaluation.bench.timing.window import MIN_LAUNCHES, act
from evaluation.device_kind import CPU, GPU
from evaluation.errors import Broken, SubmissionError
from evaluation.kinds.module import budget, drops
from evaluation.kinds.module.details import PhaseErrors, Timing
from evaluation.kinds.module.limits import Ratios
from evaluation.kinds.module.session import UNTRUSTED, LiveSession, Memory, PhaseMemory, at_rank
from evaluation.sandboxed.model.phases import Regime
from evaluation.types import Reason

SPREAD = Spread(0.04, 0.01)
PLANS = {
    CPU: Plan(0.05, 10, 30, 0.02, 3.0, SPREAD),
    GPU: Plan(0.015, 10, 30, 0.005, 2.0, SPREAD),
}
SHORT_PLANS = {GPU: Plan(0.015, 4, 6, 0.05, 0.5, SPREAD)}
"""Plans that show whether a regime may be the best; without one all are measured in full."""
SLOTS = {CPU: 1, GPU: 16}
"""Most launches of a window of a whole forward. On a GPU, handing it over takes half a millisecond.
"""
STAGED_CHECKED = 4
"""Launches that are checked of those whose inputs arrive just before them."""
LATE_RATIO, LATE_PROOF = 10.0, 2
"""Errors of launches that used other inputs than their own, over the baseline's, and how many of
them prove it. A mixture of experts has such errors in a tenth of its rows.
"""
MAX_PREFILL_RATIO = 2.0
"""The untimed prefill of a decode may take this many times the baseline's; more is added."""
MAX_GAP = 1e-3
"""Largest distance of a chosen token from the best one by its own logits: rounding of a sum."""


@dataclass
class Checked:
    """Errors of the outputs of one process against the judge's exact model."""

    errors: list[torch.Tensor] = field(default_factory=list)
    agreed: int = 0
    """Tokens that the exact model would have chosen, too."""
    tokens: int = 0
    gap: float = 0.0
    """Largest distance of a chosen token from the best by the exact model."""


class ModelWindows:
    """Windows of one process on one phase and regime."""

    def __init__(
        self,
        session: LiveSession,
        mode: str,
        phase: str,
        memory: Memory,
        regime: Regime,
        repeatable: bool = False,
    ) -> None:
        """Bind the process and run a first window, in which `torch.compile` compiles."""
        self.session, self.mode, self.phase, self.memory = session, mode, phase, memory
        self.regime, self.repeatable = regime, repeatable
        self.trusted = mode not in UNTRUSTED
        self.checked: defaultdict[int, Checked] = defaultdict(Checked)
        """By rank."""
        self.late_errors: list[float] = []
        """Median errors of launches whose inputs arrived late, before their turn."""
        self.prefills: list[float] = []
        """Nanoseconds of each untimed prefill."""
        self.launches = 1
        """Launches of a window, each on inputs of its own."""
        self.launch_ns = 0.0
        """Nanoseconds of a launch in the last window."""
        self.captured = False
        self.refusal = ""
        """Why the launch could not be captured, or the model not be compiled."""
        self.seconds = 0.0
        """Time of the first windows, in which code is compiled and captured."""
        started = time.perf_counter()
        if mode == "free" and regime is Regime.COMPILE:
            ModelWindows(session, mode, phase, memory, Regime.EAGER)  # stores the outputs
        self.bind()
        self.window()
        self.memory_bytes = self.process.peak_gpu_bytes
        """Most GPU memory of the process so far in this phase, weights included; no graph yet."""
        if regime is Regime.GRAPH:
            self.capture()
        if regime is not Regime.EAGER:
            self.window()
        self.seconds = time.perf_counter() - started

    def bind(self) -> None:
        """Give the process this phase and regime; another `ModelWindows` may have had it."""
        with _attribute_failure(self):
            self.process = self.session.bind(self.mode, self.memory, self.regime, self.repeatable)

    def capture(self) -> None:
        """Capture the launch in a CUDA graph if that is possible."""
        with _attribute_failure(self):
            if self.phase == "decode":
                # The launch before the capture decodes once: its cache must have room again.
                self.process.request({"do": "ready", "slot": 0})
            self.captured = self.process.capture(0, self.launches)
            self.refusal = self.process.refusal

    def start(self, launches: int) -> None:
        """Take the process from another `ModelWindows`, for windows of so many launches."""
        self.bind()
        self.launches = launches
        if self.regime is Regime.GRAPH:
            self.capture()
        self.prefills.clear()

    def window(self) -> float:
        """Return the nanoseconds of one launch on fresh inputs, and check an output."""
        return self.run(*(self.session.draw(self.phase) for _ in range(self.launches)))[0]

    def overhead(self) -> float:
        """Return what a window without launches takes, for each launch, in nanoseconds."""
        with _attribute_failure(self):
            self._write(self._written)
            return self.process.run(0, 0) / self.launches

    def run(
        self, *inputs: Mapping[str, torch.Tensor], fixed: bool = False
    ) -> tuple[float, list[dict[str, torch.Tensor]]]:
        """Return the nanoseconds of a launch, and the outputs of each rank of a secret launch.

        There is one launch for each of the inputs. A decode gets fresh noise unless the inputs are
        `fixed`, to compare two processes.
        """
        with _attribute_failure(self):
            if self.phase == "decode":
                (given,) = inputs
                self._write(inputs)
                hidden = self.process.request({"do": "ready", "slot": 0})
                self.prefills.append(float(hidden))
                # Noise and first token are written after the prefill, which cannot use them.
                drawn = {} if fixed else self.session.draw("decode")
                inputs = ({**given, **{n: drawn[n] for n in ("noise", "first_token") if drawn}},)
            self.process.prepare(0, len(inputs))
            self._write(inputs)
            elapsed, slot, late = self._launch(len(inputs))
            where = f"{self.phase}, {self.regime}"
            ranks = self.memory.read_all(slot, where, len(inputs))
            self._check_agreement(ranks)
            for rank, outputs in enumerate(ranks):
                self._check(inputs[slot], outputs, self.checked[rank])
            if late and self.mode != "free":
                self.late_errors.append(float(self.checked[0].errors[-1].median()))
        self.launch_ns = elapsed / len(inputs)
        return self.launch_ns, ranks

    def _launch(self, count: int) -> tuple[int, int, bool]:
        """Launch the slots, some of whose inputs arrive late.

        Returns: nanoseconds, a slot to check, and whether its inputs arrived late and in time. Most
        often they did.
        """
        late = None
        if isinstance(self.memory, PhaseMemory) and count >= MIN_LAUNCHES:
            late = LateInputs(self.memory, 0, count)
            late.write_decoys()
        sampler = partial(act, late.moments, self.launch_ns * count) if late else no_sampling
        try:
            elapsed = self.process.run(0, count, replay=self.captured, sampler=sampler)
        finally:
            if late:
                late.inject_missing()
        self.process.require_idle()
        in_time = late.in_time() if late and secrets.randbelow(4) else []
        # What a launch under way found when its inputs arrived is not known.
        decided = [slot for slot in range(count) if not late or slot not in late.launches]
        return elapsed, secrets.choice(in_time or decided), bool(in_time)

    def check_staged(self) -> None:
        """Launch slots whose inputs arrive just before each, and check some outputs.

        Limitation: not where several ranks share a model, or a window has one launch.
        """
        memory = self.memory
        if not isinstance(memory, PhaseMemory) or self.launches < 2:
            return
        drawn = [self.session.draw(self.phase) for _ in range(self.launches)]
        self._write(drawn)
        slots, where = range(self.launches), f"{self.phase}, {self.regime}, {ARRIVING}"
        staged = staged_inputs.stage_of(memory.memory, memory.inputs.layout, self.launches)
        with staged as stage, _attribute_failure(self):
            staged_inputs.move([memory.inputs.row(slot) for slot in slots], stage)
            if stage.bytes.is_cuda:
                torch.cuda.synchronize(stage.bytes.device)
            self.process.stage(stage, 0)
            self.process.run_prepared(lambda: None)
            for slot in secrets.SystemRandom().sample(slots, min(len(slots), STAGED_CHECKED)):
                self._check(drawn[slot], memory.read(slot, where), self.checked[0])

    def _write(self, inputs: Sequence[Mapping[str, torch.Tensor]]) -> None:
        for slot, given in enumerate(inputs):
            self.memory.write(slot, given)
        self._written = inputs

    def _check_agreement(self, ranks: Sequence[Mapping[str, torch.Tensor]]) -> None:
        """Require the same tokens of every rank: one that differs has another cache from then on.

        Raises: SubmissionError.
        """
        tokens = [outputs["tokens"] for outputs in ranks if "tokens" in outputs]
        for rank, other in enumerate(tokens):
            if self.mode != "free" and not torch.equal(tokens[0], other):
                message = f"{self.phase}: ranks 0 and {rank} chose different tokens"
                raise SubmissionError(Reason.WRONG_VALUES, message)

    @torch.inference_mode()
    def _check(
        self,
        inputs: Mapping[str, torch.Tensor],
        outputs: Mapping[str, torch.Tensor],
        checked: Checked,
    ) -> None:
        if self.mode == "free":
            return  # its outputs are wrong by design
        session = self.session
        if self.phase != "decode":
            want = session.forward(session.reference, inputs, self.phase)
            checked.errors.append(budget.row_errors(outputs["output"], want))
            return
        tokens, logits = outputs["tokens"], outputs["logits"].float()
        noise = inputs["noise"]
        scores = logits + noise
        if not bool(((tokens >= 0) & (tokens < noise.shape[1])).all()):
            raise SubmissionError(Reason.WRONG_VALUES, "decode: a token is not in the vocabulary")
        picked = scores.gather(1, tokens.view(-1, 1))[:, 0]
        if float((scores.max(1).values - picked).max()) > MAX_GAP:
            message = "decode: a token is not the largest of its own logits plus noise"
            raise SubmissionError(Reason.WRONG_VALUES, message)
        fed = torch.cat([inputs["first_token"].view(-1), tokens[:-1]]).view(1, -1)
        whole = {**inputs, "input_ids": torch.cat([inputs["input_ids"], fed], dim=1)}
        want = session.forward(session.reference, whole, "forced")[0, -len(tokens) :].float()
        checked.errors.append(budget.row_errors(logits, want))
        exact = want + noise
        best = exact.max(1).values - exact.gather(1, tokens.view(-1, 1))[:, 0]
        checked.gap = max(checked.gap, float(best.max()))
        checked.agreed += int((best == 0).sum())
        checked.tokens += len(tokens)


@contextmanager
def _attribute_failure(windows: ModelWindows) -> Iterator[None]:
    """Turn a failure of a trusted process into `Broken`."""
    try:
        yield
    except SubmissionError as error:
        if not windows.trusted:
            raise
        where = f"{windows.mode}, {windows.phase}, {windows.regime}"
        raise Broken(f"the judge's own model failed ({where}): {error}") from error


def check_budget(candidate: ModelWindows, baseline: ModelWindows, limits: Ratios) -> PhaseErrors:
    """Return the error ratios of a candidate, of several ranks those of the worst.

    Raises: SubmissionError beyond the limits.
    """
    _check_turns(candidate, baseline)
    ranks = sorted(candidate.checked)
    found = [_budget_of(rank, candidate, baseline, limits) for rank in ranks]
    return max(found, key=lambda each: each.median)


def _check_turns(candidate: ModelWindows, baseline: ModelWindows) -> None:
    """Require that launches used inputs that arrived before their turn. Raises SubmissionError."""
    if not candidate.late_errors:
        return
    usual = float(torch.cat(baseline.checked[0].errors).median())
    wrong = sum(error > LATE_RATIO * usual for error in candidate.late_errors)
    if wrong >= LATE_PROOF:
        raise SubmissionError(
            Reason.WRONG_VALUES,
            f"{candidate.phase}, {candidate.regime}: {wrong} of {len(candidate.late_errors)} "
            "launches did not use inputs that arrived before their turn",
        )


def _budget_of(
    rank: int, candidate: ModelWindows, baseline: ModelWindows, limits: Ratios
) -> PhaseErrors:
    checked = candidate.checked[rank]
    errors = checked.errors, baseline.checked[rank].errors
    found, least = budget.ratios(*errors), budget.lower_ratios(*errors)
    where = at_rank(f"{candidate.phase}, {candidate.regime}", rank, len(candidate.checked))
    if not least.within(limits):
        raise SubmissionError(
            Reason.WRONG_VALUES,
            f"{where}: the model's error is at least {least.median:.2f} times the baseline's "
            f"(90th percentile {least.tail:.2f}); allowed are {limits.median:.2f} "
            f"({limits.tail:.2f}): {drops.Drop.BUDGET}",
        )
    rows = budget.wrong_rows(*errors, limits)
    if rows.wrong > rows.allowed:
        raise SubmissionError(
            Reason.WRONG_VALUES,
            f"{where}: {rows.wrong} of {rows.rows} rows of the model's output are wrong; allowed "
            f"are {rows.allowed}: {drops.Drop.BUDGET}",
        )
    return PhaseErrors(found.median, found.tail, checked.tokens, checked.agreed, checked.gap)


def measure(candidate: ModelWindows, baseline: ModelWindows, plan: Plan) -> Timing:
    """Measure blocks. A decode's prefill beyond the allowed time is added."""
    launches = launches_of(plan, baseline.launch_ns, baseline.memory.slots)
    candidate.start(launches)
    baseline.start(launches)
    blocks = measured_blocks(candidate, baseline, plan)
    if candidate.prefills:
        allowed = MAX_PREFILL_RATIO * statistics.median(baseline.prefills)
        hidden = max(0.0, statistics.median(candidate.prefills) - allowed)
        blocks = [Block(block.candidate + hidden, block.baseline) for block in blocks]
    return dataclasses.replace(
        timing_of(blocks, plan),
        memory_bytes=candidate.memory_bytes,
        baseline_memory_bytes=baseline.memory_bytes,
    )


def measured_blocks(candidate: ModelWindows, baseline: ModelWindows, plan: Plan) -> list[Block]:
    """Measure blocks; on a GPU without the time that handing it over takes."""
    overheads: list[float] = []

    def baseline_window() -> float:
        if candidate.session.kind == GPU:
            overheads.append(baseline.overhead())
        return baseline.window()

    measured = estimates.blocks(
        lambda: estimates.Window(candidate.window()),
        lambda: estimates.Window(baseline_window()),
        plan,
    )
    return without_overhead(measured.counted, overheads)


def without_overhead(blocks: Sequence[Block], overheads: Sequence[float]) -> list[Block]:
    """Return blocks without the time that handing the GPU to a process and back takes.

    It is the trusted baseline's, so no candidate gains by a longer one of its own. At most half of
    the shortest time is taken for it.
    """
    if not overheads:
        return list(blocks)
    shortest = min(min(block.candidate, block.baseline) for block in blocks)
    overhead = min(statistics.median(overheads), shortest / 2)
    return [Block(block.candidate - overhead, block.baseline - overhead) for block in blocks]


def launches_of(plan: Plan, launch_ns: float, most: int) -> int:
    """Return the launches of a window that takes as long as planned, 1 to `most`."""
    return max(1, min(most, round(plan.window_seconds * 1e9 / max(launch_ns, 1.0))))


def timing_of(blocks: Sequence[Block], plan: Plan) -> Timing:
    ratios = [block.log_ratio for block in blocks]
    return Timing(
        candidate_us=statistics.median(block.candidate for block in blocks) / 1e3,
        baseline_us=statistics.median(block.baseline for block in blocks) / 1e3,
        speedup=estimates.speedup_of(blocks, plan.spread),
        blocks=len(blocks),
        spread=statistics.stdev(ratios) if len(ratios) > 1 else 0.0,
    )


def slots_of(session: LiveSession, phase: str) -> int:
    """Return the most launches of a window. A decode is one: its prompt is not timed."""
    return 1 if phase == "decode" else SLOTS[session.kind]
