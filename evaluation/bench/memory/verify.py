"""Comparison of outputs with expected ones: written, finite, and within the allowed error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from evaluation.bench.memory.poison import unwritten
from evaluation.errors import SubmissionError
from evaluation.tasks.input_families import SMALL_ELEMENTS
from evaluation.tasks.reference import ExpectedOutput, Reference, Tensors
from evaluation.types import Reason

MAX_ESTIMATES = 9
"""Estimates of the size of roundings, the largest of which counts before values are refused."""
FAR, OFF, FAR_SHARE, FEW = 64.0, 2.0, 0.25, 100
"""Elements so many times the allowed error off, after two estimates and after more, and their share
of an output, that no further estimate explains. One that is as much too small by chance is a rare
element's, or that of a row that follows from one choice. An output of fewer than FEW elements has
no such share.
"""
CLEAR = 0.5
"""Share of the allowed error up to which an estimate from fewer runs is enough."""
PART = 1 << 24
"""Elements whose errors are computed at a time, as they take four times the memory of 16 bits."""


def compare_launch(
    reference: Reference, inputs: Tensors, outputs: Tensors, secret: int, where: str
) -> float:
    """Check the outputs of one launch as `compare` does.

    The size of roundings can be an estimate from few random runs (see `tasks.roundings`). Among
    millions of elements it is far too small for some, by chance. So wrong values are compared again
    with ever more estimates, unless many are far off by both kinds, or off by three estimates. One
    ends early where errors are small beside it already.
    """
    estimates = reference.estimates(inputs, lambda found: acceptable(outputs, found, CLEAR))
    for number in range(1, MAX_ESTIMATES):
        expected = next(estimates)
        try:
            return compare(outputs, expected, secret, where)
        except SubmissionError as error:
            if error.reason is not Reason.WRONG_VALUES or (
                number > 1 and far_off(outputs, expected, FAR if number == 2 else OFF)
            ):
                raise
    return compare(outputs, next(estimates), secret, where)


def far_off(outputs: Tensors, expected: Mapping[str, ExpectedOutput], times: float) -> bool:
    """Return whether many values of an output are more than `times` the allowed error off.

    Only outputs that are compared by value count.
    """
    return any(
        _share_off(outputs[name], output, times) > FAR_SHARE
        for name, output in expected.items()
        if output.dtype.is_floating_point
        and not output.error_share
        and outputs[name].numel() >= FEW
    )


def _share_off(got: torch.Tensor, expected: ExpectedOutput, times: float) -> float:
    error = (got.double() - expected.exact).abs_()
    finite = torch.isfinite(expected.rounded.double())  # an overflow is right, and infinitely off
    return float((finite & (error > times * expected.allowed)).double().mean())


def compare_launches(
    reference: Reference,
    inputs: Sequence[Tensors],
    outputs: Sequence[Tensors],
    secret: int,
    where: Sequence[str],
) -> float:
    """Check some launches as `compare_launch` does: small ones at once, unless one is in doubt.

    The estimate for a single large one may end early, which is faster. `OperatorWorkload.check` has
    the same rule for timed launches, which are stacked already: to stack these here, where large
    ones are compared one by one, would copy all that a GPU can hold of them.
    """
    elements = sum(value.numel() for value in inputs[0].values())
    if len(inputs) > 1 and elements <= SMALL_ELEMENTS:
        own = [{n: t for n, t in each.items() if n not in reference.weights} for each in inputs]
        expected, found = reference.expected_of_many(_stacked(own)), _stacked(outputs)
        shares = [_error_share(name, found, output) for name, output in expected.items()]
        if None not in shares:
            return max((share for share in shares if share is not None), default=0.0)
    each = zip(inputs, outputs, where, strict=True)
    return max(
        compare_launch(reference, given, written, secret, place) for given, written, place in each
    )


def _stacked(launches: Sequence[Tensors]) -> dict[str, torch.Tensor]:
    return {name: torch.stack([each[name] for each in launches]) for name in launches[0]}


def compare(
    outputs: Tensors, expected: Mapping[str, ExpectedOutput], secret: int, where: str
) -> float:
    """Check outputs against the expected ones; `secret` is the poison that they held before.

    Returns: the largest error as a share of the allowed error.
    Raises: SubmissionError naming `where`, the element, the expected and the actual value.
    """
    worst = 0.0
    for name, output in expected.items():
        share = _error_share(name, outputs, output)
        if share is None:
            share = _compare_elements(name, outputs[name], output, secret, where)
            if output.error_share and not (share := output.error_share(outputs)) <= 1:
                message = f"{name} is wrong: {share:.3g} times the allowed error"
                raise SubmissionError(Reason.WRONG_VALUES, f"{where}: {message}")
        worst = max(worst, share)
    return worst


def acceptable(
    outputs: Tensors, expected: Mapping[str, ExpectedOutput], share: float = 1.0
) -> bool:
    """Return whether all outputs are right beyond doubt; where not, `compare` decides.

    They are if no error is more than this `share` of the allowed one.
    """
    shares = (_error_share(name, outputs, y) for name, y in expected.items())
    return all(found is not None and found <= share for found in shares)


def _error_share(name: str, outputs: Tensors, expected: ExpectedOutput) -> float | None:
    """Return the largest error as a share of the allowed one; None unless all is finite and right.

    Poison is NaN or far from any expected value, so it is never right.
    """
    got = outputs[name]
    if expected.error_share:
        share = expected.error_share(outputs)
        return share if share <= 1 else None
    if not expected.dtype.is_floating_point:
        return 0.0 if torch.equal(got, expected.rounded) else None
    if not got.numel():
        return 0.0
    flat = (torch.split(each.reshape(-1), PART) for each in (got, expected.exact, expected.allowed))
    shares = [
        ((part.double() if part.dtype.itemsize == 1 else part) - exact).abs_().div_(allowed).amax()
        for part, exact, allowed in zip(*flat, strict=True)
    ]
    worst = float(torch.stack(shares).amax())
    return worst if worst <= 1 else None


def _compare_elements(
    name: str, got: torch.Tensor, expected: ExpectedOutput, secret: int, where: str
) -> float:
    rounded = expected.rounded
    finite = torch.isfinite(rounded.double())
    stale = unwritten(got, secret)
    if got.dtype.is_floating_point and got.dtype.itemsize == 1:
        got, rounded = got.double(), rounded.double()
    same = (got == rounded) | (torch.isnan(got) & torch.isnan(rounded))
    not_finite = (finite != torch.isfinite(got)) | (~finite & ~same)
    error = (got.double() - expected.exact).abs_().masked_fill_(~finite, 0.0)
    wrong = (error > expected.allowed) & finite
    for bad, reason, problem in (
        (stale, Reason.STALE_OUTPUT, "was not written"),
        (not_finite, Reason.NON_FINITE, "is not finite where it should be"),
        (wrong, Reason.WRONG_VALUES, "is wrong"),
    ):
        if count := int(bad.sum()):
            message = f"{_first(bad, name, problem, got, expected)} ({count} of {got.numel()}"
            raise SubmissionError(reason, f"{where}: {message} elements)")
    share = torch.where(finite & (error > 0), error / expected.allowed, 0.0)
    return float(share.max()) if share.numel() else 0.0


def _first(
    bad: torch.Tensor, name: str, problem: str, got: torch.Tensor, expected: ExpectedOutput
) -> str:
    """Return the problem of the first bad element, with its expected and actual value."""
    flat = int(bad.flatten().to(torch.uint8).argmax())
    index = [int(i) for i in torch.unravel_index(torch.tensor(flat), got.shape)]
    exact, allowed, value = (
        tensor.flatten()[flat].item() for tensor in (expected.exact, expected.allowed, got)
    )
    place = f"{name}{index}" if index else name
    return f"{place} {problem}: expected {exact:.9g}, got {value:.9g}, allowed error {allowed:.2g}"
