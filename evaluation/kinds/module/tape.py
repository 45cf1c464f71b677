"""Tape: the calls of a class of modules in a live model, as cases of the module alone."""

from __future__ import annotations

import copy
import dataclasses
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from evaluation.bench.memory.layout import TensorSpec
from evaluation.errors import Broken, SubmissionError
from evaluation.kinds.module.architectures import ModuleTask
from evaluation.kinds.module.session import LiveSession, Memory, at_rank
from evaluation.sandboxed.model import calls, models, swap
from evaluation.tasks.input_families import dtype_name
from evaluation.tasks.tolerance import UNIT_ROUNDOFF
from evaluation.types import Reason

MAX_PATHS = 3
"""Modules of one phase that are judged: the first, the last and a secret one between."""
MAX_RATIO, MAX_WORST_RATIO = 1.5, 3.0
"""Limits on the error of a module over that of the library's: of all elements, and of the worst.

A norm that is 2 % off has about eight times the library's error in bfloat16.
"""
FLOAT32_STEPS = 8
"""Roundings of a module in float32, for one of a module in bfloat16 that computes in float32.

Of two honest layer norms in float32 one has 2.5 times the error of the other: one unit roundoff.
"""
MAX_MISMATCH = 0.02
"""Share of integers, such as the experts of a token, that may differ beyond the library's own."""
FAMILIES: dict[str, Callable[[torch.Tensor, torch.Generator], torch.Tensor]] = {
    "taped": lambda x, generator: x,
    "outliers": lambda x, generator: torch.where(
        torch.rand(x.shape, generator=generator, device=generator.device).to(x.device) < 0.01,
        x * 30,
        x,
    ),
    "small": lambda x, generator: x * 1e-3,
}
"""Inputs of a module alone: as taped, with large elements, and small enough for an epsilon."""


@dataclass(frozen=True)
class ModuleCall:
    """One call of a module: nested arguments, their tensors, and the shapes of the results."""

    path: str
    phase: str
    tree: Any
    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[torch.Tensor, ...]

    @property
    def name(self) -> str:
        return f"{self.phase} {self.path}"

    @property
    def slot(self) -> dict[str, torch.Tensor]:
        """Return the tensors by the names that they have in shared memory."""
        return {f"input{number}": value for number, value in enumerate(self.inputs)}

    def changed(self, change: Callable[..., torch.Tensor], *more: Any) -> ModuleCall:
        """Return the call with its first floating tensor changed to `change(tensor, *more)`."""
        values = list(self.inputs)
        for number, value in enumerate(values):
            if value.is_floating_point():
                values[number] = change(value, *more)
                break
        return dataclasses.replace(self, inputs=tuple(values))


@dataclass(frozen=True)
class Tape:
    """The calls of a phase that can be replayed, and the reasons why others cannot."""

    calls: tuple[ModuleCall, ...]
    untaped: tuple[str, ...]


@torch.inference_mode()
def record(session: LiveSession, task: ModuleTask, phase: str) -> Tape:
    """Run the judge's own model on fresh inputs, and return the calls of a task's modules."""
    cls = models.module_class(task)
    model = session.model
    found: dict[str, ModuleCall] = {}
    refused: list[str] = []

    def hook(path: str) -> Callable[..., None]:
        def after(module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
            if path in found:
                return
            given: list[torch.Tensor] = []
            try:
                tree = calls.encoded((args, kwargs), given)
            except calls.Unsupported as error:
                refused.append(f"{path} takes a {error}")
                return
            found[path] = ModuleCall(
                path,
                phase,
                tree,
                tuple(value.detach().clone() for value in given),
                tuple(value.detach().clone() for value in calls.tensors(result)),
            )

        return after

    paths = swap.places(model, cls)
    hooks = [
        model.get_submodule(path).register_forward_hook(hook(path), with_kwargs=True)
        for path in paths
    ]
    inputs = session.draw(phase)
    try:
        if phase == "decode":
            _one_step(session, inputs, hooks_after_prefill=found)
        else:
            session.forward(model, inputs, phase)
    finally:
        for handle in hooks:
            handle.remove()
    return Tape(tuple(found.values()), tuple(dict.fromkeys(refused)))


def _one_step(
    session: LiveSession, inputs: Mapping[str, torch.Tensor], hooks_after_prefill: dict[str, Any]
) -> None:
    """Prefill, forget what was taped, and run one decode step."""
    model, data = session.model, session.data
    prompt = {spec.name: inputs[spec.name].to(session.device) for spec in session.size.inputs}
    cache = models.new_cache(model, data, prompt["input_ids"].shape[1] + 1)
    cache = models.prefill(model, data, prompt, cache)
    hooks_after_prefill.clear()
    models.step(model, data, inputs["first_token"].view(1, 1).to(session.device), cache)


def chosen(tape: Tape) -> list[ModuleCall]:
    """Return the calls that are judged. Raises Broken where there is none."""
    if not tape.calls:
        return []
    picked = {0, len(tape.calls) - 1, secrets.randbelow(len(tape.calls))}
    return [tape.calls[number] for number in sorted(picked)][:MAX_PATHS]


def memory_of(session: LiveSession, call: ModuleCall) -> Memory:
    """Return memory for a launch of one module."""
    inputs = [TensorSpec.of(name, value) for name, value in call.slot.items()]
    outputs = [TensorSpec.of(f"output{n}", value) for n, value in enumerate(call.outputs)]
    values = {
        "phase": "module",
        "path": call.path,
        "tree": call.tree,
        "inputs": [spec.name for spec in inputs],
        "outputs": [spec.name for spec in outputs],
    }
    return session.new_memory(inputs, outputs, 1, values)


class Truth:
    """The library's module in float64, and its own error in the model's dtype.

    The error of a split module has that of the sum over its ranks.

    Some products of matrices do not exist in float64; such a module is computed in float32.
    """

    def __init__(self, session: LiveSession, call: ModuleCall) -> None:
        module = session.model.get_submodule(call.path)
        self._modules = session.library_modules(call.path)
        self._exact = copy.deepcopy(module).double()
        self._device = session.device
        self._own = session.dtype
        self._wide = torch.float64

    @torch.inference_mode()
    def expected(self, call: ModuleCall) -> list[torch.Tensor]:
        """Return the results in float64, or in float32 where the module has no other."""
        try:
            return self._widened(call)
        except RuntimeError:
            if self._wide == torch.float32 or self._own == torch.float32:
                raise
            self._wide = torch.float32
            self._exact.float()
            return self._widened(call)

    def _widened(self, call: ModuleCall) -> list[torch.Tensor]:
        wide = tuple(
            value.to(self._wide) if value.is_floating_point() else value for value in call.inputs
        )
        tree = calls.with_dtype(call.tree, dtype_name(self._own), dtype_name(self._wide))
        found = self._run(self._exact, dataclasses.replace(call, tree=tree, inputs=wide))
        return [value.double() if value.is_floating_point() else value for value in found]

    @torch.inference_mode()
    def library(self, call: ModuleCall) -> list[torch.Tensor]:
        """Return the results of the library's module as the model runs it."""
        ranks = [self._run(module, call) for module in self._modules]
        return [sum(parts[1:], start=parts[0]) for parts in zip(*ranks, strict=True)]

    def check(self, call: ModuleCall, found: Mapping[str, torch.Tensor], where: str) -> float:
        """Return the largest share of an allowed error that the outputs of a call take.

        Raises: SubmissionError where one takes more than all of it.
        """
        got = [found[f"output{n}"] for n in range(len(call.outputs))]
        return compare(got, self.library(call), self.expected(call), where)

    def check_all(
        self, call: ModuleCall, ranks: Sequence[Mapping[str, torch.Tensor]], where: str
    ) -> float:
        """Return what `check` does, for the outputs of every rank. Raises SubmissionError."""
        return max(
            self.check(call, found, at_rank(where, rank, len(ranks)))
            for rank, found in enumerate(ranks)
        )

    def _run(self, module: nn.Module, call: ModuleCall) -> list[torch.Tensor]:
        slot = {name: value.to(self._device) for name, value in call.slot.items()}
        positional, named = calls.decoded(call.tree, slot)
        return [value.to(self._device) for value in calls.tensors(module(*positional, **named))]


def compare(
    got: list[torch.Tensor],
    library: list[torch.Tensor],
    expected: list[torch.Tensor],
    where: str,
) -> float:
    """Return the largest share of an allowed error that the results take.

    Raises: SubmissionError where one takes more than all of it.
    """
    worst = 0.0
    for number, (ours, theirs, want) in enumerate(zip(got, library, expected, strict=True)):
        name = f"{where}, output {number}"
        if not want.is_floating_point():
            ours_off = float((ours != want).double().mean())
            allowed = float((theirs != want).double().mean()) + MAX_MISMATCH
            share, text = ours_off / allowed, f"{ours_off:.1%} of its integers differ"
        else:
            share, text = _share(ours, theirs, want, name)
        if share > 1:
            raise SubmissionError(
                Reason.WRONG_VALUES, f"{name}: {text}; that is {share:.1f} times what is allowed"
            )
        worst = max(worst, share)
    return worst


def _share(
    ours: torch.Tensor, theirs: torch.Tensor, want: torch.Tensor, name: str
) -> tuple[float, str]:
    if not bool((ours.isfinite() | ~want.isfinite()).all()):
        raise SubmissionError(Reason.NON_FINITE, f"{name}: not finite where the library's is")
    roundoff = UNIT_ROUNDOFF.get(dtype_name(ours.dtype), 0.0)
    roundoff *= FLOAT32_STEPS if ours.dtype == torch.float32 else 1
    usual = float(want.square().mean().sqrt()) + 1e-30
    got, library = (((value.double() - want).nan_to_num(), value) for value in (ours, theirs))
    errors = [float(e.norm() / (want.nan_to_num().norm() + 1e-30)) for e, _ in (got, library)]
    worsts = [float((e.abs() / (want.nan_to_num().abs() + usual)).max()) for e, _ in (got, library)]
    overall = errors[0] / (MAX_RATIO * max(errors[1], roundoff / 4))
    worst = worsts[0] / (MAX_WORST_RATIO * max(worsts[1], roundoff / 2))
    if overall >= worst:
        return overall, f"its error is {errors[0]:.2g}, the library's {errors[1]:.2g}"
    return worst, f"its worst element is {worsts[0]:.2g} off, the library's {worsts[1]:.2g}"


def check_alone(session: LiveSession, task: ModuleTask) -> tuple[int, list[str], float]:
    """Check a candidate's modules of one task on taped calls of every phase.

    Returns: the number of cases, the calls that cannot be taped, and the largest share of an
    allowed error. Raises: SubmissionError.
    """
    from evaluation.sandboxed.model.phases import Regime

    count, untaped, worst = 0, [], 0.0
    for phase in session.architecture.phases:
        tape = record(session, task, phase)
        untaped += [f"{phase}: {why}" for why in tape.untaped[:1]]
        for call in chosen(tape):
            memory = memory_of(session, call)
            truth = Truth(session, call)
            try:
                process = session.bind("candidate", memory, Regime.EAGER)
                for family in FAMILIES:
                    changed = call.changed(FAMILIES[family], session.new_generator())
                    memory.write(0, changed.slot)
                    process.run(0, 1)
                    process.require_idle()
                    where = f"{call.name}, {family} inputs"
                    worst = max(worst, truth.check_all(changed, memory.read_all(0, where), where))
                    count += 1
            finally:
                memory.close()
    if not count:
        raise Broken(f"no call of {task.module} can be taped: {'; '.join(untaped)}")
    return count, untaped, worst
