# honest: one kernel; a program finds the scales of its rows, then quantises them as it multiplies
import triton
import triton.language as tl

TILE_M = 32
TILE_N = 64
DEPTH = 64


@triton.jit
def int8_matmul_kernel(
    x,
    weight,
    scales,
    out,
    m,
    n,
    k,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    DEPTH: tl.constexpr,
):
    rows = tl.program_id(0).to(tl.int64) * TILE_M + tl.arange(0, TILE_M)
    cols = tl.program_id(1).to(tl.int64) * TILE_N + tl.arange(0, TILE_N)
    depths = tl.arange(0, DEPTH)
    inside_m, inside_n = rows < m, cols < n

    largest = tl.zeros((TILE_M,), tl.float32)
    for first in range(0, k, DEPTH):
        mask = inside_m[:, None] & (first + depths < k)[None, :]
        values = tl.load(x + rows[:, None] * k + first + depths[None, :], mask, other=0.0)
        largest = tl.maximum(largest, tl.max(tl.abs(values.to(tl.float32)), axis=1))
    scale = tl.div_rn(largest, 127.0)
    divisor = tl.where(scale > 0, scale, 1.0)[:, None]

    sums = tl.zeros((TILE_M, TILE_N), tl.int32)
    for first in range(0, k, DEPTH):
        deep = first + depths < k
        values = tl.load(
            x + rows[:, None] * k + first + depths[None, :],
            inside_m[:, None] & deep[None, :],
            other=0.0,
        ).to(tl.float32)
        whole = (tl.div_rn(values, divisor) + 12582912.0 - 12582912.0).to(tl.int8)
        weights = tl.load(
            weight + cols[None, :] * k + first + depths[:, None],
            deep[:, None] & inside_n[None, :],
            other=0,
        )
        sums += tl.dot(whole, weights)
    channel = tl.load(scales + cols, inside_n, other=0.0)
    results = sums.to(tl.float32) * (scale[:, None] * channel[None, :])
    mask = inside_m[:, None] & inside_n[None, :]
    tl.store(out + rows[:, None] * n + cols[None, :], results, mask)


def int8_matmul(x, weight, scales, out):
    (m, k), n = x.shape, weight.shape[0]
    grid = (triton.cdiv(m, TILE_M), triton.cdiv(n, TILE_N))
    int8_matmul_kernel[grid](
        x, weight, scales, out, m, n, k, TILE_M=TILE_M, TILE_N=TILE_N, DEPTH=DEPTH
    )
