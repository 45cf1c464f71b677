"""Error budget: a candidate's errors against the judge's exact model, as a ratio to the baseline's.

The limits belong to an architecture. They are fitted from honest variants, and every mutant must
exceed one of them (see `fit`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from evaluation.production.limits import Ratios

MIN_ROW = 32
ROW = 64
"""Elements of a row of an output whose last dimension is shorter than `MIN_ROW`."""
TAIL = 0.9


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


def ratios(candidate: Sequence[torch.Tensor], baseline: Sequence[torch.Tensor]) -> Ratios:
    """Return the ratios of pooled row errors."""
    ours, theirs = torch.cat(list(candidate)), torch.cat(list(baseline))
    floor = 1e-9
    return Ratios(
        median=float(ours.median()) / max(float(theirs.median()), floor),
        tail=float(_quantile(ours)) / max(float(_quantile(theirs)), floor),
    )


def _quantile(values: torch.Tensor) -> torch.Tensor:
    ordered = values.sort().values
    return ordered[min(len(ordered) - 1, int(TAIL * len(ordered)))]
