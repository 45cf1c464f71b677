"""Checks of a task's own numbers: cases, tolerance and cost model, before anything is judged."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from evaluation.shapes import tensor_bytes
from evaluation.tasks.reference import Reference
from evaluation.tasks.spec import Task
from evaluation.types import Case, Comparison, Split, TaskCheck

COARSE_BITS = 4
"""Significant bits of inputs with which a result must be wrong; every float dtype has more."""
COARSE_CASES = 4
"""Cases, until one has a wrong result: roundings can cancel in a single number."""
MAX_COST_FACTOR = 4.0
"""Bytes that a cost model may count, as a multiple of the bytes of all tensors."""


def check_numbers(task: Task) -> tuple[TaskCheck, ...]:
    """Return the checks of a task whose reference `check_reference` accepts."""
    return (_cases(task), _tolerance(task), _cost(task))


def _cases(task: Task) -> TaskCheck:
    """Compare the held-out cases with the seen ones."""
    seen = {_configuration(case): case.name for case in task.cases(Split.SEEN)}
    hidden = task.cases(Split.UNSEEN)
    twice = [case for case in hidden if _configuration(case) in seen]
    if twice:
        pairs = ", ".join(f"{case.name} is {seen[_configuration(case)]}" for case in twice)
        return TaskCheck(
            "cases", False, f"held-out cases that are seen: {pairs}; change their sizes"
        )
    text = f"{len(hidden)} held-out cases differ from the {len(seen)} seen ones"
    return TaskCheck("cases", True, text)


def _configuration(case: Case) -> tuple[object, ...]:
    return case.dtype, tuple(sorted(case.symbols.items()))


def _tolerance(task: Task) -> TaskCheck:
    """Compute with coarse inputs: a tolerance that accepts the results tests nothing.

    The cases are small: in the mean of a million numbers, their roundings vanish.
    """
    if not any(x.is_floating_point() for x in _small(task)[0].draw().values()):
        return TaskCheck("tolerance", True, "no input is a floating-point tensor")
    if not task.operator.has_roundings:
        return TaskCheck("tolerance", True, "no output has a tolerance")
    shares = {dtype: _coarse_error(_small(task, dtype)) for dtype in _seen_dtypes(task)}
    errors = ", ".join(f"{factor(share)} in {dtype}" for dtype, share in shares.items())
    text = f"their error, as a multiple of the allowed one, is {errors}"
    wanted = f"inputs rounded to {COARSE_BITS} significant bits must be refused, and"
    if loose := ", ".join(dtype for dtype, share in shares.items() if not share > 1):
        advice = f"lower c1 or c2 of {loose}"
        return TaskCheck("tolerance", False, f"{wanted} pass in {loose}: {text}; {advice}")
    return TaskCheck("tolerance", True, f"{wanted} are: {text}")


def factor(share: float) -> str:
    """Return an error, as a multiple of the allowed one, with three digits, such as 74,600."""
    if math.isinf(share):
        return "∞"
    return f"{float(f'{share:.3g}'):,.0f}" if share >= 100 else f"{share:.3g}"


def _seen_dtypes(task: Task) -> tuple[str, ...]:
    return tuple(dict.fromkeys(case.dtype for case in task.cases(Split.SEEN)))


def _small(task: Task, dtype: str = "") -> list[Reference]:
    """Return the references of the smallest public cases of a dtype, of any without one."""
    cases = [case for case in task.checked_cases() if dtype in ("", case.dtype)]
    return [Reference(task.operator, case) for case in cases[:COARSE_CASES]]


def _coarse_error(references: Sequence[Reference]) -> float:
    """Return the largest error with coarse inputs as a share of the allowed error."""
    worst = 0.0
    for reference in references:
        worst = max(worst, _coarse_error_of(reference, reference.draw()))
        if worst > 1:
            break
    return worst


def _coarse_error_of(reference: Reference, inputs: dict[str, torch.Tensor]) -> float:
    expected = reference.expected(inputs)
    found = reference.expected({name: _coarse(x) for name, x in inputs.items()})
    shares = []
    rounded = {name: each.rounded for name, each in found.items()}
    for output in reference.operator.outputs:
        each = expected[output.name]
        if output.compare == Comparison.DISTRIBUTION:
            shares.append(math.inf)  # a random output is no function of its inputs
        elif each.error_share:
            shares.append(each.error_share(rounded))
        else:
            shares.append(_share(found[output.name].exact, each.exact, each.allowed))
    return max(shares)


def _share(found: torch.Tensor, exact: torch.Tensor, allowed: torch.Tensor) -> float:
    error = (found.double() - exact.double()).abs()
    shares = torch.where(error == 0, error, error / allowed)  # a whole number allows 0
    return float(shares.nan_to_num(0.0, posinf=math.inf).max())


def _coarse(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    mantissa, exponent = torch.frexp(tensor.double())
    scale = float(2**COARSE_BITS)
    return torch.ldexp(torch.round(mantissa * scale) / scale, exponent).to(tensor.dtype)


def _cost(task: Task) -> TaskCheck:
    """Compare the bytes of the cost model with those of the tensors, in every written case."""
    cases = (*task.cases(Split.SEEN), *task.cases(Split.UNSEEN))
    for case in cases:
        moved, operations = task.operator.module().cost(case)
        outputs = tensor_bytes(task.operator.outputs, case)
        bound = MAX_COST_FACTOR * tensor_bytes(task.operator.arguments, case)
        if not outputs <= moved <= bound:
            text = (
                f"a {case.dtype} case moves {moved:g} bytes; expected were {outputs} to {bound:g}"
            )
            return TaskCheck("cost", False, f"{text}: correct `cost` in reference.py")
        if not 0 <= operations < math.inf:
            return TaskCheck("cost", False, f"`cost` counts {operations!r} operations: correct it")
    return TaskCheck("cost", True, f"bytes of {len(cases)} cases fit the tensors")
