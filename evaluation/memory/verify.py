"""Comparison of outputs with expected ones: written, finite, and within the allowed error."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from evaluation.errors import SubmissionError
from evaluation.memory.layout import unwritten
from evaluation.tasks.reference import ExpectedOutput, Tensors
from evaluation.types import Reason


def compare(
    outputs: Tensors, truths: Mapping[str, ExpectedOutput], secret: int, where: str
) -> float:
    """Check outputs against the expected ones; `secret` is the poison that they held before.

    Returns: the largest error as a share of the allowed error.
    Raises: SubmissionError naming `where`, the element, the expected and the actual value.
    """
    worst = 0.0
    for name, expected in truths.items():
        share = _share(outputs[name], expected)
        if share is None:
            share = _compare_in_detail(name, outputs[name], expected, secret, where)
        worst = max(worst, share)
    return worst


def acceptable(outputs: Tensors, truths: Mapping[str, ExpectedOutput]) -> bool:
    """Return whether all outputs are right beyond doubt; where not, `compare` decides."""
    return all(_share(outputs[name], expected) is not None for name, expected in truths.items())


def _share(got: torch.Tensor, expected: ExpectedOutput) -> float | None:
    """Return the largest error as a share of the allowed one; None unless all is finite and right.

    Poison is NaN or far from any expected value, so it is never right.
    """
    if not expected.dtype.is_floating_point:
        return 0.0 if torch.equal(got, expected.rounded) else None
    if not got.numel():
        return 0.0
    worst = float((got - expected.exact).abs_().div_(expected.allowed).amax())
    return worst if worst <= 1 else None


def _compare_in_detail(
    name: str, got: torch.Tensor, expected: ExpectedOutput, secret: int, where: str
) -> float:
    rounded = expected.rounded
    _refuse(
        unwritten(got, secret), Reason.STALE_OUTPUT, "was not written", name, got, expected, where
    )
    finite = torch.isfinite(rounded.double())
    same = (got == rounded) | (torch.isnan(got) & torch.isnan(rounded))
    odd = (finite != torch.isfinite(got)) | (~finite & ~same)
    _refuse(odd, Reason.NON_FINITE, "is not finite where it should be", name, got, expected, where)
    error = torch.where(finite, (got.double() - expected.exact).abs(), 0.0)
    wrong = error > expected.allowed
    _refuse(wrong & finite, Reason.WRONG_VALUES, "is wrong", name, got, expected, where)
    share = torch.where(finite & (error > 0), error / expected.allowed, 0.0)
    return float(share.max()) if share.numel() else 0.0


def _refuse(
    bad: torch.Tensor,
    reason: Reason,
    what: str,
    name: str,
    got: torch.Tensor,
    expected: ExpectedOutput,
    where: str,
) -> None:
    count = int(bad.sum())
    if not count:
        return
    flat = int(bad.flatten().to(torch.uint8).argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), got.shape))
    place = f"{name}{list(index)}" if index else name
    wanted, value = expected.exact.flatten()[flat].item(), got.flatten()[flat].item()
    allowed = expected.allowed.flatten()[flat].item()
    raise SubmissionError(
        reason,
        f"{where}: {place} {what}: expected {wanted:.9g}, got {value:.9g}, "
        f"allowed error {allowed:.2g} ({count} of {got.numel()} elements)",
    )
