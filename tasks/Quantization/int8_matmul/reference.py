"""W8A8 matrix multiplication: activations quantised per token as they come, weights per channel
(ZeroQuant, Yao et al., 2022); quantising is float32 arithmetic, for float64 inputs too.
"""

import torch

UNIT = "int8"
"""The dtype whose peak bounds the products of every case."""

TIE = 2.0**-21
"""A ratio this near to a tie, relatively, may go either way: four units in its last place."""
ROUNDING = 2.0**-6
"""Of a result, in any of the dtypes."""


def quantised(x):
    """The rows of `x` in whole numbers, their scales, and the ratios that were rounded: float32."""
    wide = x.float()
    largest = wide.abs().amax(dim=-1, keepdim=True)
    # By a tensor: on a GPU a division by a number is a multiplication by its reciprocal.
    scale = largest / torch.full_like(largest, 127.0)
    ratio = torch.where(scale > 0, wide / scale, 0.0)
    return ratio.round(), scale, ratio


def product(whole, weight, dtype):
    """whole @ weight.T for whole numbers: exact in float64, in int32 where PyTorch offers it."""
    if dtype == torch.float64:
        return whole.double() @ weight.double().T
    (m, k), n = whole.shape, weight.shape[0]
    if m > 16 and k % 8 == n % 8 == 0:
        return torch._int_mm(whole.to(torch.int8), weight.T).float()
    return whole @ weight.float().T


def reference(x, weight, scales):
    whole, scale, _ = quantised(x)
    return (product(whole, weight, x.dtype) * scale * scales).to(x.dtype)


def magnitude(x, weight, scales):
    _, scale, ratio = quantised(x)
    tie = (ratio.abs() % 1 - 0.5).abs() <= TIE * ratio.abs()
    # What those that lie at a tie can change, and its rounding to the case's dtype, in units of what
    # the tolerance multiplies this with.
    quanta = product(tie, weight.double().abs(), x.dtype) * scale * scales
    return reference(x, weight, scales).abs() + quanta * (1 + ROUNDING) * 2.0**24


def reduction(case):
    # Sums of integers are exact, however long.
    return 1


def inputs(case, draw):
    m, n, k = case["m"], case["n"], case["k"]
    # Weights are about 64 large, and sums of k of them about sqrt(k) times that.
    scale = 2.0 ** -(6 + k.bit_length() // 2)
    return {
        "x": draw.normal((m, k)),
        "weight": draw.integers((n, k), -127, 128),
        "scales": draw.uniform((n,), 0.5, 1.5) * scale,
    }


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    m, n, k = case["m"], case["n"], case["k"]
    return (m * k + m * n) * item + n * k + 4 * n, 2 * m * n * k
