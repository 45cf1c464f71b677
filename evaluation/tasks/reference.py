"""Inputs and expected outputs of a case, computed in float64."""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from evaluation.tasks import suite_call
from evaluation.tasks.domain import dtype_of
from evaluation.tasks.float64 import outputs_of, widened
from evaluation.tasks.input_families import FAMILIES, InputGenerator, torch_dtype
from evaluation.tasks.operator import TF32, Operator
from evaluation.tasks.properties import Distances, measured_property
from evaluation.tasks.roundings import disturbed_by, operands_cut, products_rounded_to
from evaluation.tasks.tolerance import UNIT_ROUNDOFF, Tolerance
from evaluation.types import Argument, Case, Comparison

CPU = torch.device("cpu")
Tensors = Mapping[str, torch.Tensor]
NO_ROUNDINGS = Tolerance(0.0, 0.0)
"""Tolerance of whole numbers."""


@dataclass(frozen=True)
class ExpectedOutput:
    """One output in float64, its allowed error, and the dtype of the submission's output."""

    exact: torch.Tensor
    allowed: torch.Tensor
    dtype: torch.dtype
    error_share: Callable[[Tensors], float] | None = None
    """For an output that is not compared by value: its error, given all outputs, as a share of the
    allowed error.
    """

    @property
    def rounded(self) -> torch.Tensor:
        """Return the output rounded to its dtype."""
        return self.exact.to(self.dtype)


class Reference:
    """Inputs and expected outputs of one case on one device, in the judge's process only."""

    def __init__(
        self,
        operator: Operator,
        case: Case,
        device: torch.device = CPU,
        seed: int | None = None,
    ) -> None:
        """Prepare a case. `seed` is that of the weights of a suite's module, if it has any."""
        self.operator = operator
        self.case = case
        self.device = device
        self._reference = operator.module()
        self._has_vmap = True
        self._distances = Distances()
        self.scalars = {a.name: case[a.name] for a in operator.scalars}
        self._given_seed = seed

    @cached_property
    def _seed(self) -> int:
        return secrets.randbits(63) if self._given_seed is None else self._given_seed

    @cached_property
    def weights(self) -> dict[str, torch.Tensor]:
        """The weights of a suite's module, which are the same in all launches."""
        found = suite_call.weights(self.operator, self.case, self._seed)
        return self._typed(self.operator.weights, found)

    @cached_property
    def suite_call(self) -> dict[str, Any] | None:
        """The call of the suite's module; None for an operator of this project."""
        return suite_call.suite_call(self.operator, self.case, self._seed)

    def draw(self, family: str = FAMILIES[0]) -> dict[str, torch.Tensor]:
        """Return fresh inputs from a secret seed, in the dtypes of the case, with the weights."""
        generator = torch.Generator(self.device).manual_seed(secrets.randbits(63))
        if not self.operator.weights:
            return self.drawn(InputGenerator(generator, family))
        drawn = self._reference.activations(self.case, InputGenerator(generator, family))
        return {**self._typed(self.operator.activations, drawn), **self.weights}

    def drawn(self, draw: InputGenerator) -> dict[str, torch.Tensor]:
        """Return inputs from a generator, in the dtypes of the case, with drawn weights."""
        return self._typed(self.operator.inputs, self._reference.inputs(self.case, draw))

    def _typed(self, arguments: Sequence[Argument], found: Tensors) -> dict[str, torch.Tensor]:
        """Return tensors of arguments on the device, in the dtypes of the case."""
        return {
            a.name: found[a.name].to(self.device, torch_dtype(dtype_of(a, self.case))).contiguous()
            for a in arguments
        }

    def expected(self, inputs: Tensors) -> dict[str, ExpectedOutput]:
        """Return the expected outputs for `inputs`, computed in float64."""
        return next(self.estimates(inputs))

    def estimates(
        self, inputs: Tensors, enough: Callable[[Mapping[str, ExpectedOutput]], bool] | None = None
    ) -> Iterator[dict[str, ExpectedOutput]]:
        """Yield the expected outputs without end, with allowed errors that never shrink.

        The size of roundings is the largest of all estimates so far. Every second one disturbs
        operations by as many roundings as the tolerance allows, and counts the change by one. An
        estimate ends early where the expected outputs are `enough`.
        """
        wide = widened(inputs)
        exact = self._call("exact", wide)
        largest: tuple[torch.Tensor, ...] = ()

        def with_earlier(sizes: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            return tuple(map(torch.maximum, largest, sizes)) if largest else sizes

        def bounded(sizes: tuple[torch.Tensor, ...]) -> dict[str, ExpectedOutput]:
            return self._bounded(wide, exact, sizes, self._tolerance)

        until = None if enough is None else lambda sizes: enough(bounded(with_earlier(sizes)))
        for roundings in itertools.cycle((1.0, max(1.0, self._tolerance.c2))):
            with disturbed_by(roundings, until), self._precision():
                largest = with_earlier(self._call("magnitude", wide))
            yield bounded(largest)

    def expected_of_many(self, inputs: Tensors) -> dict[str, ExpectedOutput]:
        """Return the expected outputs of many launches, stacked along the first dimension.

        Weights are the same in all of them, and not stacked.
        """
        wide = widened({**inputs, **self.weights})
        exact = self._call_batched("exact", wide)
        with self._precision():
            sizes = self._call_batched("magnitude", wide)
        return self._bounded(wide, exact, sizes, self._tolerance)

    def bounds(
        self, inputs: Tensors, *tolerances: Tolerance
    ) -> dict[str, tuple[ExpectedOutput, ...]]:
        """Return the expected outputs for each of several tolerances, of the same roundings."""
        wide = widened(inputs)
        found = self._call("exact", wide), self._call("magnitude", wide)
        each = [self._bounded(wide, *found, tolerance) for tolerance in tolerances]
        return {name: tuple(outputs[name] for outputs in each) for name in each[0]}

    def _precision(self) -> AbstractContextManager[None]:
        """Return the context in which roundings are those that the task allows.

        A fit and the mutants of a reference know the rule `ieee` alone.
        """
        if self.operator.precision == TF32 and self.case.dtype == "float32":
            return operands_cut(self._tolerance.c2 or 1.0)
        return nullcontext()

    @property
    def _tolerance(self) -> Tolerance:
        return self.operator.tolerance.get(self.case.dtype, NO_ROUNDINGS)

    def _bounded(
        self,
        wide: Tensors,
        exact: tuple[torch.Tensor, ...],
        magnitude: tuple[torch.Tensor, ...],
        tolerance: Tolerance,
    ) -> dict[str, ExpectedOutput]:
        reduction = self._reference.reduction(self.case)
        outputs = {}
        for argument, y, s in zip(self.operator.outputs, exact, magnitude, strict=True):
            name = dtype_of(argument, self.case)
            dtype = torch_dtype(name)
            share = self._error_share(argument, wide, tolerance)
            if share is not None:
                allowed = torch.full_like(s, math.inf)
            elif argument.compare == Comparison.ROUNDED:
                allowed = s
            elif dtype.is_floating_point:
                gain = self._gain(argument, wide)
                allowed = tolerance.allowed(y, s, reduction, name, gain)
            else:
                allowed = torch.zeros_like(s)
            outputs[argument.name] = ExpectedOutput(y, allowed, dtype, share)
        return outputs

    def _error_share(
        self, output: Argument, wide: Tensors, tolerance: Tolerance
    ) -> Callable[[Tensors], float] | None:
        """Return the check of an output that is not compared by value; None for others."""
        launches = 0
        if argument := next((a for a in self.operator.activations if wide[a.name].dim()), None):
            extra = wide[argument.name].dim() - len(argument.shape)
            launches = wide[argument.name].shape[0] if extra else 0
        if output.compare == Comparison.PROPERTY:
            unit = tolerance.c2 * UNIT_ROUNDOFF.get(self.case.dtype, UNIT_ROUNDOFF["float32"])

            def share(given: Tensors) -> float:
                return measured_property(self._reference.check, given) / max(unit, 1e-300)

        elif output.compare == Comparison.DISTRIBUTION:

            def share(given: Tensors) -> float:
                return self._distances.share(self._reference.distribution, given)

        else:
            return None

        def of_launches(outputs: Tensors) -> float:
            given = {**wide, **widened(outputs)}
            if not launches:
                return share({**given, **self.scalars})
            shared = self.weights if self.operator.weights else {}
            each = (
                {n: t if n in shared else t[i] for n, t in given.items()} for i in range(launches)
            )
            return max(share({**one, **self.scalars}) for one in each)

        return of_launches

    def _gain(self, output: Argument, wide: Tensors) -> torch.Tensor | None:
        """Return the size, at least one, of what may multiply a rounded element of an output.

        This is a floating-point input with one value for each channel, such as a norm's weight: its
        dimensions are the last ones of the output. None for an operator without one.
        """
        gain: torch.Tensor | None = None
        for argument in self.operator.inputs:
            values, rank = wide[argument.name], len(argument.shape)
            if not values.dtype.is_floating_point or not 0 < rank < len(output.shape):
                continue
            if argument.shape == output.shape[-rank:]:
                launches = values.shape[: values.dim() - rank]
                between = (1,) * (len(output.shape) - rank)
                size = values.abs().view(*launches, *between, *values.shape[len(launches) :])
                gain = size.clamp_(min=1) if gain is None else torch.maximum(gain, size)
        return gain

    def _call(self, function: str, inputs: Tensors) -> tuple[torch.Tensor, ...]:
        with products_rounded_to(self.case.dtype):
            return outputs_of(getattr(self._reference, function)(**inputs, **self.scalars))

    def _call_batched(self, function: str, inputs: Tensors) -> tuple[torch.Tensor, ...]:
        names = tuple(inputs)
        own = {a.name for a in self.operator.activations}
        stacked = tuple(0 if name in own else None for name in names)

        def launch(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return self._call(function, dict(zip(names, tensors, strict=True)))

        count = next(tensor for name, tensor in inputs.items() if name in own).shape[0]
        if count > 1 and self._has_vmap:
            try:
                return torch.vmap(launch, stacked)(*inputs.values())
            except torch.OutOfMemoryError:
                pass
            except RuntimeError:  # an operation has no batching rule
                self._has_vmap = False
        rows = [
            launch(*(x if name not in own else x[n] for name, x in inputs.items()))
            for n in range(count)
        ]
        return tuple(map(torch.stack, zip(*rows, strict=True)))
