"""Workload of an operator on one case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from evaluation.bench.memory.input_pool import InputPool, Tensors
from evaluation.bench.memory.layout import TensorSpec
from evaluation.bench.memory.verify import acceptable, compare_launch
from evaluation.shapes import WHOLE, dtype_of, shape_of
from evaluation.tasks.defaults import bounds_of
from evaluation.tasks.operator import Operator
from evaluation.tasks.reference import CPU, Reference
from evaluation.types import Argument, Case

FAMILIES = ("nominal", "outliers", "nominal", "shifted")
"""Input families of the drawn sets, which are mixed so that all launches look alike.

The first of an operator's own stands for those that it leaves out, which no tolerance fits.
"""
MAX_POOL_BYTES = 3 << 30
"""Drawn sets of a pool beyond the first two take no more: they lie beside the ring and the float64
values of a launch, all of which fit a GPU of 40 GB.
"""


class OperatorWorkload:
    """Launches of a kernel on one case, checked against the operator's reference."""

    late_whole = True

    def __init__(
        self, operator: Operator, case: Case, device: torch.device = CPU, seed: int | None = None
    ) -> None:
        """Describe a case. `seed` is that of the weights of a suite's module."""
        self.reference = Reference(operator, case, device, seed)
        self.device = device
        self.arguments = operator.arguments
        self.values = values_of(operator, case)
        self.inputs = _specs(operator.activations, case)
        self.outputs = _specs(operator.outputs, case)
        whole_numbers = all(spec.dtype in WHOLE for spec in (*self.inputs, *self.outputs))
        self.late = not (whole_numbers or any(each.structured for each in operator.inputs))

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        return self.reference.weights

    @property
    def suite_call(self) -> dict[str, Any] | None:
        return self.reference.suite_call

    def pool(self, generator: torch.Generator) -> InputPool:
        reference = self.reference
        operator = reference.operator
        names = [argument.name for argument in operator.activations]
        families = families_of(sum(spec.bytes for spec in self.inputs), operator.input_families)

        def drawn(family: str) -> dict[str, torch.Tensor]:
            draw = reference.draw(family)
            return {name: draw[name] for name in names}

        return InputPool(
            map(drawn, families),
            len(families),
            generator,
            ranges={
                argument.name: bounds
                for argument in operator.activations
                if (bounds := bounds_of(argument, reference.case))
            },
            whole=[argument.name for argument in operator.inputs if argument.structured],
            draw_sets=reference.draws,
        )

    def check(self, inputs: Tensors, outputs: Tensors, secret: int, where: str) -> None:
        """See `Workload.check`."""
        count = len(next(iter(outputs.values())))
        # The estimate for one launch may end early, which that for many does not.
        if count > 1 and acceptable(outputs, self.reference.expected_of_many(inputs)):
            return
        for launch in range(count):
            given, found = (_of_launch(launch, tensors) for tensors in (inputs, outputs))
            compare_launch(self.reference, {**given, **self.weights}, found, secret, where)


def families_of(set_bytes: int, own: Sequence[str] = FAMILIES) -> list[str]:
    """Return the families of a pool whose sets take so many bytes each, all among `own`."""
    chosen = FAMILIES[: max(2, MAX_POOL_BYTES // max(1, set_bytes))]
    return [family if family in own else own[0] for family in chosen]


def values_of(operator: Operator, case: Case) -> dict[str, Any]:
    """Return the sizes, then the scalars, of a case by name, as an entry point receives them."""
    values: dict[str, Any] = {size: int(case[size]) for size in operator.sizes}
    for scalar in operator.scalars:
        value = case[scalar.name]
        values[scalar.name] = int(value) if scalar.dtype == "int64" else float(value)
    return values


def _specs(arguments: Sequence[Argument], case: Case) -> list[TensorSpec]:
    tensors = (argument for argument in arguments if argument.role != "scalar")
    return [TensorSpec(a.name, shape_of(a, case), dtype_of(a, case)) for a in tensors]


def _of_launch(launch: int, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor[launch] for name, tensor in tensors.items()}
