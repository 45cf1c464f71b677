"""Tolerances: the allowed error of an output."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

UNIT_ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
SMALLEST_NORMAL = {"float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126}
OUTPUT_ROUNDOFF = {**UNIT_ROUNDOFF, "float8_e4m3fn": 2.0**-4, "float8_e5m2": 2.0**-3}
OUTPUT_SMALLEST = {**SMALLEST_NORMAL, "float8_e4m3fn": 2.0**-6, "float8_e5m2": 2.0**-14}
"""The same of every dtype that an output can have, beside those of cases."""


@dataclass(frozen=True)
class Tolerance:
    """Constants of one operator and case dtype, fitted on honest implementations.

    `c1` counts roundings of the output, `c2` roundings of a float32 accumulation.
    """

    c1: float
    c2: float

    def allowed(
        self,
        expected: Tensor,
        magnitude: Tensor,
        reduction: float,
        dtype: str,
        gain: Tensor | None = None,
    ) -> Tensor:
        """Return the largest |y - y*| accepted, per element: c1 u_out |y*| + c2 u_acc sqrt(K) s.

        `expected` y* and `magnitude` s are float64; `dtype` is the output's. Below the smallest
        normal number roundings no longer shrink, and a float32 subnormal may be flushed to zero.
        A factor that follows a rounding there magnifies it: `gain` is its size, at least one.
        """
        growth = self.c2 * UNIT_ROUNDOFF["float32"] * math.sqrt(reduction)
        smallest = OUTPUT_SMALLEST[dtype]
        rounding = expected.abs()
        rounding.clamp_(min=smallest if gain is None else gain * smallest)
        rounding.mul_(self.c1 * OUTPUT_ROUNDOFF[dtype]).add_(2 * SMALLEST_NORMAL["float32"])
        return rounding.add_(magnitude, alpha=growth)
