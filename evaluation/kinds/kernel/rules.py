"""Rules of precision by which a kernel's values are right: its suite's own, `tf32` and `ieee`."""

from __future__ import annotations

from itertools import islice

import torch

from evaluation.bench.memory.verify import acceptable
from evaluation.tasks.operator import IEEE, SUITE, TF32
from evaluation.tasks.reference import ExpectedOutput, Reference, Tensors

ESTIMATES = 3
"""Estimates of the size of roundings, by one of which values must be right."""


def kept_rules(reference: Reference, inputs: Tensors, outputs: Tensors) -> list[str]:
    """Return the rules by which the outputs of one launch are right, in float32.

    What `ieee` allows, `tf32` does too. A suite's own tolerance is that from the exact values here,
    where the suite itself compares with those of PyTorch.
    """
    kept = []
    estimates = (
        (rule, expected)
        for rule in (IEEE, TF32)
        for expected in islice(reference.by(rule).estimates(inputs), ESTIMATES)
    )
    for rule, expected in estimates:
        if acceptable(outputs, expected):
            kept = [TF32, IEEE] if rule == IEEE else [TF32]
            break
    source = reference.operator.source  # all estimates have the same exact values
    tolerance = source.tolerance if source else 0.0
    if tolerance and all(_close(outputs[n], y, tolerance) for n, y in expected.items()):
        kept = [SUITE, *kept]
    return kept


def _close(got: torch.Tensor, expected: ExpectedOutput, tolerance: float) -> bool:
    exact = expected.rounded.double()
    return torch.allclose(got.double(), exact, rtol=tolerance, atol=tolerance)
