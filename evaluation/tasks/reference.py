"""Inputs and expected outputs of a case, computed in float64."""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

from evaluation.tasks.domain import dtype_of
from evaluation.tasks.float64 import outputs_of, widened
from evaluation.tasks.input_families import FAMILIES, InputGenerator, torch_dtype
from evaluation.tasks.operator import Operator
from evaluation.tasks.properties import Distances, measured_property
from evaluation.tasks.roundings import disturbed_by, products_rounded_to
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

    def __init__(self, operator: Operator, case: Case, device: torch.device = CPU) -> None:
        self.operator = operator
        self.case = case
        self.device = device
        self._reference = operator.module()
        self._has_vmap = True
        self._distances = Distances()
        self.scalars = {a.name: case[a.name] for a in operator.scalars}

    def draw(self, family: str = FAMILIES[0]) -> dict[str, torch.Tensor]:
        """Return fresh inputs from a secret seed, in the dtypes of the case."""
        generator = torch.Generator(self.device).manual_seed(secrets.randbits(63))
        return self.drawn(InputGenerator(generator, family))

    def drawn(self, draw: InputGenerator) -> dict[str, torch.Tensor]:
        """Return inputs from a generator, in the dtypes of the case."""
        drawn = self._reference.inputs(self.case, draw)
        return {
            a.name: drawn[a.name].to(torch_dtype(dtype_of(a, self.case))).contiguous()
            for a in self.operator.inputs
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
            with disturbed_by(roundings, until):
                largest = with_earlier(self._call("magnitude", wide))
            yield bounded(largest)

    def expected_of_many(self, inputs: Tensors) -> dict[str, ExpectedOutput]:
        """Return the expected outputs of many launches, stacked along the first dimension."""
        wide = widened(inputs)
        exact, sizes = (self._call_batched(name, wide) for name in ("exact", "magnitude"))
        return self._bounded(wide, exact, sizes, self._tolerance)

    def bounds(
        self, inputs: Tensors, *tolerances: Tolerance
    ) -> dict[str, tuple[ExpectedOutput, ...]]:
        """Return the expected outputs for each of several tolerances, of the same roundings."""
        wide = widened(inputs)
        found = self._call("exact", wide), self._call("magnitude", wide)
        each = [self._bounded(wide, *found, tolerance) for tolerance in tolerances]
        return {name: tuple(outputs[name] for outputs in each) for name in each[0]}

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
        if argument := next((a for a in self.operator.inputs if wide[a.name].dim()), None):
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
            each = ({n: t[i] for n, t in given.items()} for i in range(launches))
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

        def launch(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return self._call(function, dict(zip(names, tensors, strict=True)))

        count = next(iter(inputs.values())).shape[0]
        if count > 1 and self._has_vmap:
            try:
                return torch.vmap(launch)(*inputs.values())
            except torch.OutOfMemoryError:
                pass
            except RuntimeError:  # an operation has no batching rule
                self._has_vmap = False
        rows = [launch(*(tensor[index] for tensor in inputs.values())) for index in range(count)]
        return tuple(map(torch.stack, zip(*rows, strict=True)))
