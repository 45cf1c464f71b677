"""Workload of a module alone: calls that were taped in a live model, on inputs drawn from them."""

from __future__ import annotations

import copy
import dataclasses
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from evaluation.bench.memory.cuda_ipc import DeviceMemory
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.input_pool import InputPool, Tensors
from evaluation.bench.memory.layout import TensorSpec
from evaluation.bench.memory.poison import unwritten
from evaluation.bench.memory.region import Region
from evaluation.bench.memory.ring import BufferRing
from evaluation.bench.memory.workload import Workload
from evaluation.errors import SubmissionError
from evaluation.kinds.module.session import LiveSession, at_rank
from evaluation.kinds.module.tape import ModuleCall, Truth
from evaluation.sandboxed.model import calls as nested
from evaluation.types import Argument, Reason

MAX_NUMBERS = 1000
"""Numbers that an integer input is drawn below, where the library's module takes so many."""
SETS_OF_A_CALL = 2


class TapedCall:
    """Launches of one module of a live model, checked against the library's module.

    Every floating input is drawn anew from the taped ones, and every integer for which the
    library's module takes any number, such as a time step. Masks stay as taped.
    """

    suite_call: Mapping[str, Any] | None = None
    weights: Tensors = {}

    def __init__(self, session: LiveSession, calls: Sequence[ModuleCall]) -> None:
        """Describe calls of one path, of which each tape of a phase has one."""
        self._session, self._calls, call = session, calls, calls[0]
        self._truth = Truth(session, call)
        self.device = torch.device(session.device)
        self.inputs = [TensorSpec.of(name, value) for name, value in call.slot.items()]
        self.outputs = [TensorSpec.of(f"output{n}", each) for n, each in enumerate(call.outputs)]
        self.arguments = [Argument(spec.name, "output", spec.dtype) for spec in self.outputs]
        self.values: dict[str, Any] = {
            "phase": "module",
            "path": call.path,
            "tree": call.tree,
            "inputs": [spec.name for spec in self.inputs],
            "outputs": [spec.name for spec in self.outputs],
            "repeatable": False,
        }
        self._numbers = {
            name: count
            for name, value in call.slot.items()
            if _is_integer(value) and (count := self._numbers_of(name))
        }
        """The count of numbers that an integer input is drawn from, where it may be any of them."""
        self._whole = [
            name
            for name, value in call.slot.items()
            if name not in self._numbers and not _is_mixable(value)
        ]
        self.late_whole = session.architecture.ranks == 1
        self.late = self.late_whole and all(map(self._is_constant, self._whole))

    def pool(self, generator: torch.Generator) -> InputPool:
        sets = [self._drawn(call, generator) for call in self._calls for _ in range(SETS_OF_A_CALL)]
        choose = secrets.SystemRandom().choices
        return InputPool(
            sets,
            len(sets),
            generator,
            whole=self._whole,
            draw_sets=lambda count: choose(sets, k=count),
        )

    def check(self, inputs: Tensors, outputs: Tensors, secret: int, where: str) -> None:
        """See `Workload.check`."""
        for launch in range(len(next(iter(outputs.values())))):
            given = tuple(inputs[spec.name][launch] for spec in self.inputs)
            found = {name: tensor[launch] for name, tensor in outputs.items()}
            for name, output in found.items():
                if bool(unwritten(output, secret).any()):
                    raise SubmissionError(Reason.STALE_OUTPUT, f"{where}: {name} was not written")
            call = dataclasses.replace(self._calls[0], inputs=given)
            self._truth.check(call, found, f"{call.name}, {where}")

    def _drawn(self, call: ModuleCall, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """Return the inputs of a taped call, with fresh integers."""
        found = dict(call.slot)
        for name, count in self._numbers.items():
            shape, device = found[name].shape, generator.device
            drawn = torch.randint(count, shape, generator=generator, device=device)
            found[name] = drawn.to(found[name].dtype)
        return found

    def _numbers_of(self, name: str) -> int:
        """Return how many numbers from 0 on an integer input may have; 0 if it must stay as taped.

        They are tried on a processor, where an index out of bounds is an error, or is clamped, or
        leaves results that were never written.
        """
        taped = [call.slot[name] for call in self._calls if call.slot[name].numel()]
        if not taped or any(int(value.min()) < 0 for value in taped):
            return 0
        most = 1 + max(int(value.max()) for value in taped)
        module = copy.deepcopy(self._session.model.get_submodule(self._calls[0].path))
        module = module.to("cpu").float()
        if not self._results(module, name, 0):
            return 0
        if most <= MAX_NUMBERS and self._takes_large(module, name):
            return MAX_NUMBERS
        return most if self._results(module, name, most - 1) else 0

    def _takes_large(self, module: torch.nn.Module, name: str) -> bool:
        """Return whether a module tells two large numbers apart, and gives one result for each."""
        one, other, again = (self._results(module, name, MAX_NUMBERS - n) for n in (2, 1, 2))
        if not (one and other and again and all(bool(each.isfinite().all()) for each in other)):
            return False
        return all(map(torch.equal, one, again)) and not all(map(torch.equal, one, other))

    @torch.inference_mode()
    def _results(self, module: torch.nn.Module, name: str, number: int) -> list[torch.Tensor]:
        """Return what a module gives where all of an input are one number; empty if it raises."""
        slot = {
            each: value.cpu().float() if value.is_floating_point() else value.cpu()
            for each, value in self._calls[0].slot.items()
        }
        slot[name] = torch.full_like(slot[name], number)
        positional, named = nested.decoded(self._calls[0].tree, slot)
        # So memory that a result leaves unwritten is NaN, and not by chance what it was before.
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            return [each.clone() for each in nested.tensors(module(*positional, **named))]
        except Exception:
            return []  # whatever the library's code raises for numbers that it cannot take
        finally:
            torch.use_deterministic_algorithms(False)

    def _is_constant(self, name: str) -> bool:
        """Return whether a mixture of two launches' values is as good as either."""
        first = self._calls[0].slot[name]
        return first.dtype is torch.bool or all(
            torch.equal(first, call.slot[name]) for call in self._calls[1:]
        )


def _is_integer(value: torch.Tensor) -> bool:
    return not value.is_floating_point() and value.dtype is not torch.bool


def _is_mixable(value: torch.Tensor) -> bool:
    """Return whether a floating input may be multiplied and shifted: not a mask of the least."""
    if not value.is_floating_point():
        return False
    return bool((value.abs() < torch.finfo(value.dtype).max / 2).all())


class RankRing(BufferRing):
    """The ring of a module that is split over ranks: each has the inputs of the first."""

    def __init__(
        self, workload: Workload, slots: int, memories: Sequence[HostMemory | DeviceMemory]
    ) -> None:
        super().__init__(workload, slots, memories[0])
        self._others = [BufferRing(workload, slots, memory) for memory in memories[1:]]

    @property
    def regions(self) -> list[Region]:
        """Return the regions of every rank, one after the other."""
        return [*super().regions, *(region for ring in self._others for region in ring.regions)]

    def refill(self, first: int, count: int) -> None:
        """Write fresh inputs, the same for every rank."""
        super().refill(first, count)
        slots = range(first, first + count)
        given = [self.inputs.slot(slot % self.slots) for slot in slots]
        for ring in self._others:
            ring.write(given, first)

    def verify(
        self,
        first: int,
        count: int,
        sample: int,
        where: str,
        undecided: Collection[int] = (),
    ) -> None:
        """Check the first rank's launches, and one secret launch of every other rank."""
        super().verify(first, count, sample, where, undecided)
        slot = (first + secrets.randbelow(count)) % self.slots
        given = {name: value[None] for name, value in self.inputs.slot(slot).items()}
        for rank, ring in enumerate(self._others, 1):
            at = at_rank(where, rank, 1 + len(self._others))
            for name, value in ring.inputs.slot(slot).items():
                if not torch.equal(value.to(self.workload.device), given[name][0]):
                    raise SubmissionError(Reason.INPUT_MUTATED, f"{at}: input {name} was changed")
            found = ring.outputs.slot(slot).items()
            outputs = {name: value[None].to(self.workload.device) for name, value in found}
            self.workload.check(given, outputs, ring.secret, at)
