"""Linear layer and GELU by tanh, one program per tile of the result; IEEE products."""

import triton
import triton.language as tl

# arena: tune BLOCK_M 32 64 128
BLOCK_M = 64
# arena: tune BLOCK_N 32 64 128
BLOCK_N = 64
# arena: tune BLOCK_K 16 32 64
BLOCK_K = 32
# arena: tune WARPS 2 4 8
WARPS = 4
# arena: tune STAGES 2 3 4
STAGES = 3


@triton.jit
def expm1(x):
    # A series where exp(x) - 1 cancels.
    series = x * (1 / 3628800) + 1 / 362880
    series = series * x + 1 / 40320
    series = series * x + 1 / 5040
    series = series * x + 1 / 720
    series = series * x + 1 / 120
    series = series * x + 1 / 24
    series = series * x + 1 / 6
    series = series * x + 0.5
    return tl.where(tl.abs(x) < 1, series * x * x + x, tl.exp(x) - 1)


@triton.jit
def tanh(x):
    size = tl.abs(x)
    small = expm1(2 * tl.minimum(size, 0.5))
    result = tl.where(size < 0.5, small / (small + 2), 1 - 2 / (tl.exp(2 * size) + 1))
    return tl.where(x < 0, -result, result)


@triton.jit
def linear_gelu_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    col = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    depths = tl.arange(0, BLOCK_K)

    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        depth = first + depths[None, :]
        left = tl.load(x_ptr + row * k + depth, (row < m) & (depth < k), other=0.0)
        depth = first + depths[:, None]
        right = tl.load(weight_ptr + col * k + depth, (depth < k) & (col < n), other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")

    mask = (row < m) & (col < n)
    bias = tl.load(bias_ptr + col, col < n, other=0.0).to(tl.float32)
    y = total + bias
    inner = 0.7978845608028654 * (y + 0.044715 * y * y * y)
    tl.store(out_ptr + row * n + col, 0.5 * y * (1 + tanh(inner)), mask)


def linear_gelu(x, weight, bias, out):
    (m, k), n = x.shape, weight.shape[0]
    grid = (triton.cdiv(m, BLOCK_M), triton.cdiv(n, BLOCK_N))
    linear_gelu_kernel[grid](
        x,
        weight,
        bias,
        out,
        m,
        n,
        k,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        num_warps=WARPS,
        num_stages=STAGES,
    )
