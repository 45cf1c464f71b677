"""Comparison of outputs with the expected ones: finite, written, and within the allowed error."""

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
    """Check outputs against the truth. Returns the largest error as a share of what is allowed.

    `secret` is the poison they held before. Raises SubmissionError naming `where`, the element, the
    expected and the got.
    """
    worst = 0.0
    for name, truth in truths.items():
        share = _share(outputs[name], truth)
        if share is None:
            share = _close_look(name, outputs[name], truth, secret, where)
        worst = max(worst, share)
    return worst


def acceptable(outputs: Tensors, truths: Mapping[str, ExpectedOutput]) -> bool:
    """Whether all outputs are right beyond doubt; where not, `compare` takes a closer look."""
    return all(_share(outputs[name], truth) is not None for name, truth in truths.items())


def _share(got: torch.Tensor, truth: ExpectedOutput) -> float | None:
    """The largest error as a share of what is allowed where all is finite and right, else None.

    Poison is NaN or far from the truth, and so never among what is right.
    """
    if not truth.dtype.is_floating_point:
        return 0.0 if torch.equal(got, truth.rounded) else None
    if not got.numel():
        return 0.0
    worst = float((got - truth.exact).abs_().div_(truth.allowed).amax())
    return worst if worst <= 1 else None


def _close_look(
    name: str, got: torch.Tensor, truth: ExpectedOutput, secret: int, where: str
) -> float:
    rounded = truth.rounded
    _refuse(unwritten(got, secret), Reason.STALE_OUTPUT, "was not written", name, got, truth, where)
    finite = torch.isfinite(rounded.double())
    same = (got == rounded) | (torch.isnan(got) & torch.isnan(rounded))
    odd = (finite != torch.isfinite(got)) | (~finite & ~same)
    _refuse(odd, Reason.NON_FINITE, "is not finite where it should be", name, got, truth, where)
    error = torch.where(finite, (got.double() - truth.exact).abs(), 0.0)
    wrong = error > truth.allowed
    _refuse(wrong & finite, Reason.WRONG_VALUES, "is wrong", name, got, truth, where)
    share = torch.where(finite & (error > 0), error / truth.allowed, 0.0)
    return float(share.max()) if share.numel() else 0.0


def _refuse(
    bad: torch.Tensor,
    reason: Reason,
    what: str,
    name: str,
    got: torch.Tensor,
    truth: ExpectedOutput,
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
