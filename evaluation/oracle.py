"""What the right answer is, and whether an answer is right."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from evaluation.domain import dtype_of
from evaluation.draw import FAMILIES, Draw
from evaluation.errors import SubmissionError
from evaluation.memory import torch_dtype, unwritten
from evaluation.task import Operator
from evaluation.types import Case, Reason

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Truth:
    """One output in float64, how far an answer may lie from it, and its value in the output's own
    dtype.
    """

    exact: torch.Tensor
    rounded: torch.Tensor
    allowed: torch.Tensor


class Oracle:
    """Inputs and right answers of one case. Lives in the judge alone."""

    def __init__(self, operator: Operator, case: Case) -> None:
        self.operator = operator
        self.case = case
        self._reference = operator.module()
        self._scalars = {a.name: case[a.name] for a in operator.scalars}

    def draw(self, family: str = FAMILIES[0]) -> dict[str, torch.Tensor]:
        """Fresh inputs from a secret seed, in the dtypes of the case."""
        generator = torch.Generator().manual_seed(secrets.randbits(63))
        drawn = self._reference.inputs(self.case, Draw(generator, family))
        return {
            a.name: drawn[a.name].to(torch_dtype(dtype_of(a, self.case))).contiguous()
            for a in self.operator.inputs
        }

    def truth(self, inputs: Tensors) -> dict[str, Truth]:
        """The right outputs for `inputs`, computed in float64."""
        exact = self._call("reference", inputs)
        magnitude = self._call("magnitude", inputs)
        reduction = self._reference.reduction(self.case)
        tolerance = self.operator.tolerance[self.case.dtype]
        truths = {}
        for argument, y, s in zip(self.operator.outputs, exact, magnitude, strict=True):
            dtype = dtype_of(argument, self.case)
            rounded = y.to(torch_dtype(dtype))
            if rounded.dtype.is_floating_point:
                allowed = tolerance.allowed(y, s, reduction, dtype)
            else:
                allowed = torch.zeros_like(s)
            truths[argument.name] = Truth(y, rounded, allowed)
        return truths

    def _call(self, function: str, inputs: Tensors) -> tuple[torch.Tensor, ...]:
        wide = {n: t.double() if t.dtype.is_floating_point else t for n, t in inputs.items()}
        result = getattr(self._reference, function)(**wide, **self._scalars)
        return result if isinstance(result, tuple) else (result,)


def compare(outputs: Tensors, truths: Mapping[str, Truth], secret: int, where: str) -> float:
    """Check outputs against the truth. Returns the largest error as a share of what is allowed.

    `secret` is the poison they held before. Raises SubmissionError naming `where`, the element, the
    expected and the got.
    """
    worst = 0.0
    for name, truth in truths.items():
        got = outputs[name]
        _refuse(
            unwritten(got, secret), Reason.STALE_OUTPUT, "was not written", name, got, truth, where
        )
        finite = torch.isfinite(truth.rounded.double())
        same = (got == truth.rounded) | (torch.isnan(got) & torch.isnan(truth.rounded))
        odd = (finite != torch.isfinite(got)) | (~finite & ~same)
        _refuse(odd, Reason.NON_FINITE, "is not finite where it should be", name, got, truth, where)
        error = torch.where(finite, (got.double() - truth.exact).abs(), 0.0)
        wrong = error > truth.allowed
        _refuse(wrong & finite, Reason.WRONG_VALUES, "is wrong", name, got, truth, where)
        share = torch.where(finite & (error > 0), error / truth.allowed, 0.0)
        worst = max(worst, float(share.max())) if share.numel() else worst
    return worst


def _refuse(
    bad: torch.Tensor,
    reason: Reason,
    what: str,
    name: str,
    got: torch.Tensor,
    truth: Truth,
    where: str,
) -> None:
    count = int(bad.sum())
    if not count:
        return
    flat = int(bad.flatten().to(torch.uint8).argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), got.shape))
    place = f"{name}{list(index)}" if index else name
    expected, value = truth.exact.flatten()[flat].item(), got.flatten()[flat].item()
    allowed = truth.allowed.flatten()[flat].item()
    raise SubmissionError(
        reason,
        f"{where}: {place} {what}: expected {expected:.9g}, got {value:.9g}, "
        f"allowed error {allowed:.2g} ({count} of {got.numel()} elements)",
    )
