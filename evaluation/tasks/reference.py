"""Inputs and expected outputs of a case, computed in float64."""

from __future__ import annotations

import copy
import dataclasses
import gc
import itertools
import math
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from evaluation.shapes import FAMILIES, dtype_of
from evaluation.tasks.input_families import torch_dtype
from evaluation.tasks.operator import TF32, Operator
from evaluation.tasks.task_code import Launches
from evaluation.tasks.tolerance import UNIT_ROUNDOFF, Tolerance
from evaluation.types import Argument, Case, Comparison

if TYPE_CHECKING:
    from evaluation.tasks.task_code import Enough, Outputs

CPU = torch.device("cpu")
Tensors = Mapping[str, torch.Tensor]
CHECKS = (Comparison.PROPERTY, Comparison.DISTRIBUTION)
"""Comparisons of an output that the task's code makes."""
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
    """Inputs and expected outputs of one case on one device; the task's code computes them."""

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
        self._code = operator.code(device)
        self._reduction = self._code.reduction(case)
        self.scalars = {a.name: case[a.name] for a in operator.scalars}
        self._given_seed = seed

    @cached_property
    def _seed(self) -> int:
        return secrets.randbits(63) if self._given_seed is None else self._given_seed

    @cached_property
    def _made(self) -> tuple[dict[str, torch.Tensor], int | None]:
        """The weights of a suite's module, and the number that is drawn once they are made."""
        made = (self.case, self.device, self._seed)
        return self._code.weights(*made) if self.operator.weights else ({}, None)

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The weights of a suite's module, which are the same in all launches."""
        return self._made[0]

    @cached_property
    def suite_call(self) -> dict[str, Any] | None:
        """The call of the suite's module; None for an operator of this project."""
        return self.operator.suite_call(self.case, self._seed, self._made[1])

    def by(self, precision: str) -> Reference:
        """Return the same case with outputs by another rule of precision."""
        other = copy.copy(self)
        other.operator = dataclasses.replace(self.operator, precision=precision)
        return other

    def draw(self, family: str = FAMILIES[0]) -> dict[str, torch.Tensor]:
        """Return fresh inputs from a secret seed, in the dtypes of the case, with the weights."""
        return self.draws(1, family)[0]

    def draws(self, count: int, family: str = FAMILIES[0]) -> list[dict[str, torch.Tensor]]:
        """Return the inputs of several launches, each from a fresh secret seed."""
        seeds = [secrets.randbits(63) for _ in range(count)]
        drawn = self._code.draw(self.case, self.device, family, seeds, weights=False)
        return [{**each, **self.weights} for each in drawn]

    def drawn(self, family: str, seed: int) -> dict[str, torch.Tensor]:
        """Return inputs from a seed, in the dtypes of the case, with drawn weights."""
        return self._code.draw(self.case, self.device, family, [seed])[0]

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
        launches = self._code.launches(self.case, inputs)
        largest: tuple[torch.Tensor, ...] = ()

        def with_earlier(sizes: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            return tuple(map(torch.maximum, largest, sizes)) if largest else sizes

        def suffice(exact: tuple[torch.Tensor, ...], sizes: tuple[torch.Tensor, ...]) -> bool:
            assert enough is not None
            sizes = with_earlier(sizes)
            return enough(self._bounded(inputs, launches, exact, sizes, self._tolerance))

        # It is called while the task's code waits for it, which cannot check outputs meanwhile.
        checks = any(a.compare in CHECKS for a in self.operator.outputs)
        until = None if enough is None or checks else suffice
        for roundings in itertools.cycle((1.0, max(1.0, self._tolerance.c2))):
            exact, sizes = _outputs_of(launches, roundings, until, self._cut)
            largest = with_earlier(sizes)
            yield self._bounded(inputs, launches, exact, largest, self._tolerance)

    def expected_of_many(self, inputs: Tensors) -> dict[str, ExpectedOutput]:
        """Return the expected outputs of many launches, stacked along the first dimension.

        Weights are the same in all of them, and not stacked.
        """
        inputs = {**inputs, **self.weights}
        launches = self._code.launches(self.case, inputs, many=True)
        exact, sizes = _outputs_of(launches, cut=self._cut)
        return self._bounded(inputs, launches, exact, sizes, self._tolerance)

    def bounds(
        self, inputs: Tensors, *tolerances: Tolerance
    ) -> dict[str, tuple[ExpectedOutput, ...]]:
        """Return the expected outputs for each of several tolerances, of the same roundings."""
        launches = self._code.launches(self.case, inputs)
        exact, sizes = _outputs_of(launches)
        each = [self._bounded(inputs, launches, exact, sizes, t) for t in tolerances]
        return {name: tuple(outputs[name] for outputs in each) for name in each[0]}

    @property
    def _cut(self) -> float:
        """Return the roundings of a tolerance that lets operands be cut; zero where it does not.

        A fit and the mutants of a reference know the rule `ieee` alone.
        """
        if self.operator.precision == TF32 and self.case.dtype == "float32":
            return self._tolerance.c2 or 1.0
        return 0.0

    @property
    def _tolerance(self) -> Tolerance:
        return self.operator.tolerance.get(self.case.dtype, NO_ROUNDINGS)

    def _bounded(
        self,
        inputs: Tensors,
        launches: Launches,
        exact: tuple[torch.Tensor, ...],
        sizes: tuple[torch.Tensor, ...],
        tolerance: Tolerance,
    ) -> dict[str, ExpectedOutput]:
        outputs = {}
        for argument, y, s in zip(self.operator.outputs, exact, sizes, strict=True):
            name = dtype_of(argument, self.case)
            dtype = torch_dtype(name)
            share = self._error_share(argument, launches, tolerance)
            if share is not None:
                allowed = torch.full_like(s, math.inf)
            elif argument.compare == Comparison.ROUNDED:
                allowed = s
            elif dtype.is_floating_point:
                gain = self._gain(argument, inputs)
                allowed = tolerance.allowed(y, s, self._reduction, name, gain)
            else:
                allowed = torch.zeros_like(s)
            outputs[argument.name] = ExpectedOutput(y, allowed, dtype, share)
        return outputs

    def _error_share(
        self, output: Argument, launches: Launches, tolerance: Tolerance
    ) -> Callable[[Tensors], float] | None:
        """Return the check of an output that is not compared by value; None for others."""
        if output.compare == Comparison.PROPERTY:
            unit = tolerance.c2 * UNIT_ROUNDOFF.get(self.case.dtype, UNIT_ROUNDOFF["float32"])
            return lambda outputs: launches.error(output.compare, outputs) / max(unit, 1e-300)
        if output.compare == Comparison.DISTRIBUTION:
            return lambda outputs: launches.error(output.compare, outputs)
        return None

    def _gain(self, output: Argument, inputs: Tensors) -> torch.Tensor | None:
        """Return the size, at least one, of what may multiply a rounded element of an output.

        This is a floating-point input with one value for each channel, such as a norm's weight: its
        dimensions are the last ones of the output. None for an operator without one.
        """
        gain: torch.Tensor | None = None
        for argument in self.operator.inputs:
            values, rank = inputs[argument.name], len(argument.shape)
            if not values.dtype.is_floating_point or not 0 < rank < len(output.shape):
                continue
            if argument.shape == output.shape[-rank:]:
                launches = values.shape[: values.dim() - rank]
                between = (1,) * (len(output.shape) - rank)
                size = values.double().abs()
                size = size.view(*launches, *between, *size.shape[len(launches) :]).clamp_(min=1)
                gain = size if gain is None else torch.maximum(gain, size)
        return gain


def _outputs_of(
    launches: Launches, roundings: float = 1.0, enough: Enough | None = None, cut: float = 0.0
) -> tuple[Outputs, Outputs]:
    """Return outputs and sizes of roundings; they are computed again where memory was too small.

    The tensors of the first time are free then, and what lay in pieces between them is whole.
    """
    with suppress(torch.OutOfMemoryError):
        return launches.outputs(roundings, enough, cut)
    gc.collect()
    torch.cuda.empty_cache()
    return launches.outputs(roundings, enough, cut)
