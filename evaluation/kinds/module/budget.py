"""Error budget: a candidate's errors against the judge's exact model, as a ratio to the baseline's.

The limits belong to an architecture. They are fitted from honest variants, and every mutant must
exceed one of them (see `fit`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from evaluation.kinds.module.limits import Ratios

MIN_ROW = 32
ROW = 64
"""Elements of a row of an output whose last dimension is shorter than `MIN_ROW`."""
TAIL = 0.9
MEDIAN_DEVIATIONS, TAIL_DEVIATIONS = 2.0, 3.0
"""Half the width of the confidence intervals of medians and of 90th percentiles."""
MIN_ERROR = 1e-9
WRONG_RATIO, WRONG_ERROR = 8.0, 0.5
"""A row is wrong with so many times the allowed 90th percentile, or so much of itself, as error."""
WRONG_ROWS, WRONG_SHARE = 3, 0.01
"""Wrong rows that are allowed beside twice the baseline's share of them."""
MORE_RUNS = 7
"""Runs on equal inputs after a first difference."""

RankOutputs = Sequence[Mapping[str, torch.Tensor]]
"""Outputs of each rank, by name."""


def row_errors(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """Return the relative error of each row, in float64: infinite where a value is not finite."""
    got, want = got.double(), want.double()
    width = want.shape[-1]
    if width < MIN_ROW:
        width = ROW if want.numel() % ROW == 0 else want.numel()
    got, want = got.reshape(-1, width), want.reshape(-1, width)
    floor = want.norm() / max(1, want.shape[0]) ** 0.5 * 1e-3
    errors = (got - want).norm(dim=1) / want.norm(dim=1).clamp(min=float(floor) + 1e-30)
    return torch.where(errors.isfinite(), errors, torch.inf)


def difference(found: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> str:
    """Return by how much outputs differ, and from where on; empty where they are equal."""
    texts = []
    for name, want in wanted.items():
        unequal = found[name] != want
        if bool(unequal.any()):
            row = int(unequal.view(len(want), -1).any(1).nonzero()[0])
            off = float((found[name].double() - want.double()).abs().nan_to_num(torch.inf).max())
            share = float(unequal.double().mean())
            texts.append(f"{name}: {share:.2%}, by {off:.2g} at most, from row {row} on")
    return ", ".join(texts)


def lasting_difference(decoy: Callable[[], RankOutputs], library: Callable[[], RankOutputs]) -> str:
    """Return how a decoy's outputs differ from the library's on equal inputs; empty if equal.

    Each returns the outputs of each rank. A model may give other bits once in many runs, so a
    difference is followed by more runs of both. It counts if several of the decoy differ, and more
    than twice as many as of the library, from the library's first outputs.
    """

    def text_of(found: RankOutputs) -> str:
        pairs = zip(found, wanted, strict=True)
        return ", ".join(filter(None, (difference(*pair) for pair in pairs)))

    found, wanted = decoy(), library()
    if not (text := text_of(found)):
        return ""
    more = [(text_of(decoy()), text_of(library())) for _ in range(MORE_RUNS)]
    changed, own = (sum(map(bool, each)) for each in zip(*more, strict=True))
    return text if changed > max(1, 2 * own) else ""


def ratios(candidate: Sequence[torch.Tensor], baseline: Sequence[torch.Tensor]) -> Ratios:
    """Return the ratios of pooled row errors."""
    ours, theirs = torch.cat(list(candidate)), torch.cat(list(baseline))
    return Ratios(
        median=_ratio(_quantile(ours, 0.5), _quantile(theirs, 0.5)),
        tail=_ratio(_quantile(ours, TAIL), _quantile(theirs, TAIL)),
    )


def lower_ratios(candidate: Sequence[torch.Tensor], baseline: Sequence[torch.Tensor]) -> Ratios:
    """Return lower confidence bounds of the ratios, which few rows cannot exceed by chance.

    Of a mixture of experts, a tenth of the rows may have ten times the usual error, because
    roundings change which expert a token is routed to.
    """
    ours, theirs = torch.cat(list(candidate)), torch.cat(list(baseline))
    return Ratios(
        median=_ratio(
            _quantile(ours, 0.5, -MEDIAN_DEVIATIONS), _quantile(theirs, 0.5, MEDIAN_DEVIATIONS)
        ),
        tail=_ratio(
            _quantile(ours, TAIL, -TAIL_DEVIATIONS), _quantile(theirs, TAIL, TAIL_DEVIATIONS)
        ),
    )


@dataclass(frozen=True)
class WrongRows:
    """Rows whose error no rounding explains, and how many of them may be there."""

    wrong: int
    rows: int
    allowed: int


def wrong_rows(
    candidate: Sequence[torch.Tensor], baseline: Sequence[torch.Tensor], limits: Ratios
) -> WrongRows:
    """Return the wrong rows of a candidate.

    Percentiles do not see them: a module that skips one token in eight leaves the 90th within its
    interval, whatever that token becomes.
    """
    ours, theirs = torch.cat(list(candidate)), torch.cat(list(baseline))
    usual = max(_quantile(theirs, TAIL, TAIL_DEVIATIONS), MIN_ERROR)
    bound = min(WRONG_RATIO * limits.tail * usual, WRONG_ERROR)
    own = float((theirs > bound).double().mean())
    allowed = WRONG_ROWS + int(len(ours) * (WRONG_SHARE + 2 * own))
    return WrongRows(int((ours > bound).sum()), len(ours), allowed)


def _ratio(ours: float, theirs: float) -> float:
    return ours / max(theirs, MIN_ERROR)


def _quantile(values: torch.Tensor, share: float, deviations: float = 0.0) -> float:
    """Return a quantile, moved by standard deviations of its rank, which is binomial."""
    count = len(values)
    rank = count * share + deviations * math.sqrt(count * share * (1 - share))
    return float(values.sort().values[min(count - 1, max(0, int(rank)))])
