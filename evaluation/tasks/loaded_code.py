"""The code of a task, loaded in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import torch

from evaluation.shapes import dtype_of
from evaluation.tasks import suite_call
from evaluation.tasks.float64 import outputs_of, widened
from evaluation.tasks.input_families import InputGenerator, torch_dtype
from evaluation.tasks.properties import Distances, measured_property
from evaluation.tasks.roundings import disturbed_by, operands_cut, products_rounded_to
from evaluation.tasks.task_code import host_here
from evaluation.types import Argument, Case, Comparison

if TYPE_CHECKING:
    from evaluation.tasks.operator import Operator
    from evaluation.tasks.task_code import Enough, Outputs, Tensors


def run_here() -> None:
    """Let this process, a sandboxed one, load the code of tasks itself."""
    host_here(lambda operator, device: LoadedCode.of(operator))


class LoadedCode:
    """The functions of a loaded `reference.py` (see `TaskCode`)."""

    def __init__(self, module: ModuleType, arguments: Sequence[Argument]) -> None:
        self.module, self.arguments = module, arguments
        self.has_vmap = True
        """False once an operation had no batching rule."""
        self._distances: tuple[object, Distances] = None, Distances()
        """The case whose random outputs were tested last, and what is known of them."""

    @classmethod
    def of(cls, operator: Operator) -> Self:
        return cls(operator.module(), operator.arguments)

    def draw(
        self,
        case: Case,
        device: torch.device,
        family: str,
        seeds: Sequence[int],
        weights: bool = True,
    ) -> list[dict[str, torch.Tensor]]:
        arguments = [a for a in self._inputs if weights or not a.parameter]
        whole = len(arguments) == len(self._inputs)
        function = self.module.inputs if whole else self.module.activations
        found = []
        for seed in seeds:
            generator = torch.Generator(device).manual_seed(seed)
            drawn = function(case, InputGenerator(generator, family))
            found.append(_typed(arguments, drawn, case, device))
        return found

    def weights(
        self, case: Case, device: torch.device, seed: int
    ) -> tuple[dict[str, torch.Tensor], int]:
        found, drawn = suite_call.weights(self.module, self.arguments, case, seed)
        return _typed([a for a in self._inputs if a.parameter], found, case, device), drawn

    def suite_call(self, case: Case) -> dict[str, Any] | None:
        return suite_call.described(self.module, case)

    @property
    def _inputs(self) -> list[Argument]:
        return [a for a in self.arguments if a.role == "input"]

    def launches(self, case: Case, inputs: Tensors, many: bool = False) -> LoadedLaunches:
        return LoadedLaunches(self, case, inputs, many)

    def reduction(self, case: Case) -> float:
        return float(self.module.reduction(case))

    def cost(self, case: Case) -> tuple[float, float]:
        moved, operations = self.module.cost(case)
        return moved, operations

    def unit(self, case: Case) -> str:
        return str(getattr(self.module, "UNIT", case.dtype))

    def distances(self, case: Case) -> Distances:
        """Return what is known of the random outputs of a case."""
        key = (case.dtype, *case.symbols.items())
        if self._distances[0] != key:
            self._distances = key, Distances()
        return self._distances[1]


def _typed(
    arguments: Sequence[Argument], found: Tensors, case: Case, device: torch.device
) -> dict[str, torch.Tensor]:
    """Return tensors of arguments on a device, in the dtypes of the case."""
    return {
        a.name: found[a.name].to(device, torch_dtype(dtype_of(a, case))).contiguous()
        for a in arguments
    }


class LoadedLaunches:
    """Launches of a case (see `Launches`)."""

    def __init__(self, code: LoadedCode, case: Case, inputs: Tensors, many: bool) -> None:
        self._code, self._case, self._many = code, case, many
        self._wide = widened(inputs)
        self._scalars = {a.name: case[a.name] for a in code.arguments if a.role == "scalar"}
        self._stacked = {a.name for a in code.arguments if many and not a.parameter}
        """Names of the tensors that have a row for each launch."""
        self._exact: Outputs | None = None

    def outputs(
        self, roundings: float = 1.0, enough: Enough | None = None, cut: float = 0.0
    ) -> tuple[Outputs, Outputs]:
        exact = self._exact = self._called("exact") if self._exact is None else self._exact
        cutting = operands_cut(cut) if cut else nullcontext()
        until, known = enough and partial(enough, exact), () if self._many else exact
        with disturbed_by(roundings, until, known), cutting:
            return exact, self._called("magnitude")

    def error(self, comparison: str, outputs: Tensors) -> float:
        given = {**self._wide, **widened(outputs)}
        if not self._many:
            return self._error(comparison, given)
        each = (self._one(given, index) for index in range(self._count))
        return max(self._error(comparison, one) for one in each)

    def _one(self, tensors: Tensors, index: int) -> dict[str, torch.Tensor]:
        """Return the tensors of one of many launches."""
        return {n: t[index] if n in self._stacked else t for n, t in tensors.items()}

    def _error(self, comparison: str, given: Tensors) -> float:
        named = {**given, **self._scalars}
        if comparison == Comparison.PROPERTY:
            return measured_property(self._code.module.check, named)
        distances = self._code.distances(self._case)
        return distances.share(self._code.module.distribution, named)

    @property
    def _count(self) -> int:
        return next(t for name, t in self._wide.items() if name in self._stacked).shape[0]

    def _called(self, function: str) -> Outputs:
        return self._batched(function) if self._many else self._call(function, self._wide)

    def _call(self, function: str, inputs: Mapping[str, torch.Tensor]) -> Outputs:
        # Where cuDNN is off, convolutions in float64 are 2 to 8 times as fast on an H200.
        with products_rounded_to(self._case.dtype), torch.backends.cudnn.flags(enabled=False):
            return outputs_of(getattr(self._code.module, function)(**inputs, **self._scalars))

    def _batched(self, function: str) -> Outputs:
        names, count = tuple(self._wide), self._count

        def launch(*tensors: torch.Tensor) -> Outputs:
            return self._call(function, dict(zip(names, tensors, strict=True)))

        if count > 1 and self._code.has_vmap:
            try:
                stacked = tuple(0 if name in self._stacked else None for name in names)
                return torch.vmap(launch, stacked)(*self._wide.values())
            except torch.OutOfMemoryError:
                pass
            except RuntimeError:  # an operation has no batching rule
                self._code.has_vmap = False
        rows = [launch(*self._one(self._wide, index).values()) for index in range(count)]
        return tuple(map(torch.stack, zip(*rows, strict=True)))
