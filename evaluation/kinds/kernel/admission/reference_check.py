"""Check of an operator's `reference.py` on small cases, before a fit or an admission."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch

from evaluation.errors import TaskError, line_of
from evaluation.kinds.kernel.admission.fit import SEED, one_thread, small_cases
from evaluation.shapes import WHOLE, dtype_of, shape_of
from evaluation.tasks.defaults import CHECKS
from evaluation.tasks.float64 import outputs_of, widened
from evaluation.tasks.input_families import InputGenerator, torch_dtype
from evaluation.tasks.operator import Operator
from evaluation.types import Argument, Case, Comparison

Tensors = Mapping[str, torch.Tensor]


@one_thread()
def check_reference(operator: Operator) -> None:
    """Call each function of the reference on two small cases.

    Raises: TaskError for a wrong result, with the case and what to do.
    """
    _check_parameters(operator)
    for case in _checked_cases(operator):
        _CaseCheck(operator, case).run()


def changed(before: Tensors, after: Tensors) -> list[str]:
    """Return the names of the tensors that are no longer what they were, bit by bit."""
    return [name for name, tensor in before.items() if not same_bits(tensor, after[name])]


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors are equal bit by bit, NaN included."""
    alike = one.dtype == other.dtype and one.shape == other.shape
    return alike and torch.equal(_bits(one), _bits(other))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _checked_cases(operator: Operator) -> list[Case]:
    """Return the smallest case, and the small one whose sizes differ most among each other."""
    small = small_cases(operator, operator.domain.dtypes[0])

    def differing(case: Case) -> tuple[int, int]:
        return len({case[size] for size in operator.sizes}), operator.elements(case)

    return list({case.name: case for case in (small[0], max(small, key=differing))}.values())


def _check_parameters(operator: Operator) -> None:
    """Raise TaskError unless the functions that take arguments by name take those of the task."""
    module, given = operator.module(), [a.name for a in (*operator.inputs, *operator.scalars)]
    both = [*given, *(a.name for a in operator.outputs)]
    wanted = {"reference": given, "magnitude": given, **dict.fromkeys(CHECKS.values(), both)}
    for function, names in wanted.items():
        called = getattr(module, function, None)
        if called is None or _takes(called, names):
            continue
        found = ", ".join(inspect.signature(called).parameters) or "no parameters"
        advice = f"takes {found}; the arguments of task.toml are {', '.join(names)}: use these"
        raise TaskError(f"{_path(operator)}: {function}: {advice} names")


def _takes(called: Callable[..., Any], names: Sequence[str]) -> bool:
    try:
        inspect.signature(called).bind(**dict.fromkeys(names))
    except TypeError:
        return False
    except ValueError:  # it has no signature
        return True
    return True


def _path(operator: Operator) -> Path:
    return operator.folder / "reference.py"


@dataclass(frozen=True)
class _CaseCheck:
    """The checks of the functions of a reference on one case."""

    operator: Operator
    case: Case
    family: str = ""
    """The family of the inputs of a call; empty where there are none."""

    def run(self) -> None:
        first, *others = self.operator.input_families
        _CaseCheck(self.operator, self.case, first)._check_outputs("exact", "magnitude")
        if not _are_numbers([self._call("reduction", self.case)], 1):
            self._fail("reduction", "must return the number of terms of a sum, above 0")
        if not _are_numbers(self._call("cost", self.case), 2):
            self._fail("cost", "must return two numbers: bytes moved and operations")
        for family in others:
            _CaseCheck(self.operator, self.case, family)._check_outputs("exact")

    def _check_outputs(self, *functions: str) -> None:
        given = self._drawn()
        for function in functions:
            outputs = self._outputs(function, given)
            self._check_shapes(function, outputs, self.operator.outputs)
            if function == "exact":
                self._check_dtypes(outputs)
                self._check_repeated(outputs, self._outputs(function, given))

    def _drawn(self) -> dict[str, torch.Tensor]:
        """Return inputs as the judge gives them to the reference: in float64."""
        generator = InputGenerator(torch.Generator().manual_seed(SEED), self.family)
        drawn = self._call("inputs", self.case, generator)
        wanted = self.operator.inputs
        self._check_shapes("inputs", drawn, wanted)
        typed = {a.name: drawn[a.name].to(torch_dtype(dtype_of(a, self.case))) for a in wanted}
        return widened(typed)

    def _outputs(self, function: str, given: Tensors) -> dict[str, torch.Tensor]:
        """Return the outputs of a call by name. It gets copies of the inputs, and keeps them."""
        operator = self.operator
        copies = {name: tensor.clone() for name, tensor in given.items()}
        scalars = {scalar.name: self.case[scalar.name] for scalar in operator.scalars}
        outputs = outputs_of(self._call(function, **copies, **scalars))
        names = [output.name for output in operator.outputs]
        if len(outputs) != len(names):
            advice = f"return {names[0]} alone" if len(names) == 1 else "return them as a tuple"
            counted = f"returned {len(outputs)} outputs, not {len(names)} ({', '.join(names)})"
            self._fail(function, counted, f"{advice}, or correct the outputs of task.toml")
        if function == "exact" and (names_changed := changed(given, copies)):
            name = names_changed[0]
            self._fail(function, f"changes its input {name}", f"compute on `{name}.clone()`")
        return dict(zip(names, outputs, strict=True))

    def _check_shapes(self, function: str, found: Any, wanted: Sequence[Argument]) -> None:
        """Raise TaskError unless `found` holds a tensor of the right shape for each argument."""
        names = [argument.name for argument in wanted]
        if not isinstance(found, dict) or set(found) != set(names):
            returned = ", ".join(found) if isinstance(found, dict) else type(found).__name__
            advice = f"must return {', '.join(names)}, returned {returned or 'nothing'}"
            self._fail(function, advice)
        for argument in wanted:
            tensor, shape = found[argument.name], shape_of(argument, self.case)
            if not isinstance(tensor, torch.Tensor) or tensor.shape != shape:
                is_tensor = isinstance(tensor, torch.Tensor)
                got = str(list(tensor.shape)) if is_tensor else f"a {type(tensor).__name__}"
                self._fail(
                    function,
                    f"{argument.name} must have the shape {list(shape)}, got {got}",
                    "return it so, or correct its `shape` in task.toml",
                )

    def _check_dtypes(self, outputs: Tensors) -> None:
        """Raise TaskError where whole numbers are declared and others returned, or conversely."""
        for output in self.operator.outputs:
            declared, found = dtype_of(output, self.case), outputs[output.name].dtype
            kinds = "whole numbers", "floating-point numbers"
            wanted, got = kinds[declared not in WHOLE], kinds[found.is_floating_point]
            if wanted != got:
                self._fail(
                    "exact",
                    f"{output.name} must hold {wanted}, as {declared} does, got {got}",
                    "convert it, or correct its `dtype` in task.toml",
                )

    def _check_repeated(self, one: Tensors, other: Tensors) -> None:
        """Raise TaskError where an output that is not random differs between two calls.

        A property may relate an output to a random one.
        """
        compared = {output.name: output.compare for output in self.operator.outputs}
        random = {Comparison.DISTRIBUTION}
        if random & set(compared.values()):
            random.add(Comparison.PROPERTY)
        for name in changed(one, other):
            if compared[name] not in random:
                self._fail(
                    "exact",
                    f"{name} differs between two calls with equal inputs",
                    "compute it from the inputs alone, or declare"
                    ' `compare = "distribution"` for a random output',
                )

    def _call(self, function: str, *arguments: Any, **named: Any) -> Any:
        call = getattr(self.operator.module(), function)
        try:
            return call(*arguments, **named)
        except TaskError:
            raise
        except Exception as error:  # the reference is the author's
            path = _path(self.operator)
            if found := line_of(error, path):
                raise TaskError(f"{path}: {found}, {self._place()}") from error
            self._fail(function, f"{type(error).__name__}: {error}")

    def _place(self) -> str:
        symbols = ", ".join(f"{name} = {value}" for name, value in self.case.symbols.items())
        inputs = f" with {self.family} inputs" if self.family else ""
        return f"in {self.case.name} ({symbols}){inputs}"

    def _fail(self, function: str, found: str, remedy: str = "") -> NoReturn:
        function = "reference" if function == "exact" else function  # which the author has written
        text = f"{function}: {found}, {self._place()}" + (f": {remedy}" if remedy else "")
        raise TaskError(f"{_path(self.operator)}: {text}")


def _are_numbers(values: Any, count: int) -> bool:
    return (
        isinstance(values, list | tuple)
        and len(values) == count
        and all(isinstance(value, int | float) and value >= 0 for value in values)
        and values[0] > 0
    )
