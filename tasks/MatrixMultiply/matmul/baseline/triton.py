"""Matrix multiplication, one program per tile of the result, tiles taken in groups of rows so that
neighbours share what they load; IEEE products for float32.
"""

import triton
import triton.language as tl

# Tiles where both operands have 16 bits, which tensor cores multiply.
# arena: tune BLOCK_M 32 64 128 256
BLOCK_M = 128
# arena: tune BLOCK_N 32 64 128 256
BLOCK_N = 128
# arena: tune BLOCK_K 32 64 128
BLOCK_K = 64
# arena: tune WARPS 4 8 16
WARPS = 8
# arena: tune STAGES 2 3 4 5
STAGES = 3

# Tiles of float32, which they do not: products go one by one.
# arena: tune WIDE_M 16 32 64 128
WIDE_M = 64
# arena: tune WIDE_N 16 32 64 128
WIDE_N = 64
# arena: tune WIDE_K 16 32 64
WIDE_K = 16

# arena: tune GROUP 1 4 8 16
GROUP = 8


@triton.jit
def matmul_kernel(
    a,
    b,
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
    left = a + (rows % m).to(tl.int64)[:, None] * k + depths[None, :]
    right = b + depths.to(tl.int64)[:, None] * n + (cols % n)[None, :]
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        x = tl.load(left, (depths < k - first)[None, :], other=0.0)
        y = tl.load(right, (depths < k - first)[:, None], other=0.0)
        sums = tl.dot(x, y, sums, input_precision="ieee")
        left += BLOCK_K
        right += BLOCK_K * n
    mask = (rows < m)[:, None] & (cols < n)[None, :]
    tl.store(out + rows.to(tl.int64)[:, None] * n + cols[None, :], sums, mask)


def matmul(a, b, out):
    (m, k), n = a.shape, b.shape[1]
    wide = a.element_size() == 4
    block_m, block_n, block_k = (WIDE_M, WIDE_N, WIDE_K) if wide else (BLOCK_M, BLOCK_N, BLOCK_K)
    block_m = min(block_m, max(16, triton.next_power_of_2(m)))
    if block_m < 64:  # Few rows: tiles for every multiprocessor matter more than reuse.
        block_n, block_k = min(block_n, 32), 2 * block_k
    matmul_kernel[(triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)](
        a,
        b,
        out,
        m,
        n,
        k,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        GROUP=GROUP,
        num_warps=4 if wide or block_m < 64 else WARPS,
        num_stages=STAGES,
    )
