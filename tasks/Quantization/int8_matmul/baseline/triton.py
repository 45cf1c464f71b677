"""W8A8 matrix multiplication: one kernel quantises the rows, another multiplies them in tiles,
taken in groups of rows so that neighbours share what they load.
"""

import torch
import triton
import triton.language as tl

# arena: tune BLOCK_M 32 64 128 256
BLOCK_M = 128
# arena: tune BLOCK_N 32 64 128 256
BLOCK_N = 128
# arena: tune BLOCK_K 32 64 128
BLOCK_K = 128
# arena: tune WARPS 4 8 16
WARPS = 8
# arena: tune STAGES 2 3 4
STAGES = 3

# arena: tune GROUP 1 4 8 16
GROUP = 8

# Elements of a row that are quantised at a time.
# arena: tune STRETCH 512 1024 2048 4096
STRETCH = 1024


@triton.jit
def quantise_kernel(x, whole, row_scales, k, STRETCH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, STRETCH)

    largest = tl.zeros((STRETCH,), tl.float32)
    for first in range(0, k, STRETCH):
        values = tl.load(x + row * k + first + offsets, first + offsets < k, other=0.0)
        largest = tl.maximum(largest, tl.abs(values.to(tl.float32)))
    scale = tl.div_rn(tl.max(largest), 127.0)
    tl.store(row_scales + row, scale)

    divisor = tl.where(scale > 0, scale, 1.0)
    for first in range(0, k, STRETCH):
        mask = first + offsets < k
        values = tl.load(x + row * k + first + offsets, mask, other=0.0).to(tl.float32)
        # Beside 1.5 * 2^23 there is no room for a fraction: what is added is rounded, ties to even.
        rounded = tl.div_rn(values, divisor) + 12582912.0 - 12582912.0
        tl.store(whole + row * k + first + offsets, rounded.to(tl.int8), mask)


@triton.jit
def matmul_kernel(
    whole,
    row_scales,
    weight,
    scales,
    out,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    group = tl.program_id(0) // (GROUP * tiles_n)
    within = tl.program_id(0) % (GROUP * tiles_n)
    height = tl.minimum(tiles_m - group * GROUP, GROUP)
    rows = (group * GROUP + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = within // height * BLOCK_N + tl.arange(0, BLOCK_N)
    depths = tl.arange(0, BLOCK_K)

    # Rows and columns outside wrap around: they are loaded without a mask and never stored.
    left = whole + (rows % m).to(tl.int64)[:, None] * k + depths[None, :]
    right = weight + (cols % n).to(tl.int64)[None, :] * k + depths[:, None]
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    for first in range(0, k, BLOCK_K):
        a = tl.load(left, (depths < k - first)[None, :], other=0)
        b = tl.load(right, (depths < k - first)[:, None], other=0)
        sums = tl.dot(a, b, sums, out_dtype=tl.int32)
        left += BLOCK_K
        right += BLOCK_K
    row_scale = tl.load(row_scales + rows, rows < m, other=0.0)
    scale = tl.load(scales + cols, cols < n, other=0.0)
    results = sums.to(tl.float32) * row_scale[:, None] * scale[None, :]
    mask = (rows < m)[:, None] & (cols < n)[None, :]
    tl.store(out + rows.to(tl.int64)[:, None] * n + cols[None, :], results, mask)


def int8_matmul(x, weight, scales, out):
    (m, k), n = x.shape, weight.shape[0]
    whole = torch.empty((m, k), dtype=torch.int8, device=x.device)
    row_scales = torch.empty((m,), dtype=torch.float32, device=x.device)
    quantise_kernel[(m,)](x, whole, row_scales, k, STRETCH=STRETCH)

    block_m = min(BLOCK_M, max(16, triton.next_power_of_2(m)))
    # Few rows: tiles for every multiprocessor matter more than reuse.
    block_n = BLOCK_N if block_m >= 64 else min(BLOCK_N, 32)
    matmul_kernel[(triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)](
        whole,
        row_scales,
        weight,
        scales,
        out,
        m,
        n,
        k,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=BLOCK_K,
        GROUP=GROUP,
        num_warps=WARPS if block_m >= 64 else 4,
        num_stages=STAGES,
    )
