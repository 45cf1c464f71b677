# honest: tiles of the result in a plain two-dimensional grid, every load masked
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 64
BLOCK_K = 32

WARPS = 4


@triton.jit
def matmul_kernel(
    a, b, out, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    depths = tl.arange(0, BLOCK_K)

    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        depth = first + depths
        left = tl.load(
            a + rows[:, None] * k + depth[None, :],
            (rows[:, None] < m) & (depth[None, :] < k),
            other=0.0,
        )
        right = tl.load(
            b + depth.to(tl.int64)[:, None] * n + cols[None, :],
            (depth[:, None] < k) & (cols[None, :] < n),
            other=0.0,
        )
        sums = tl.dot(left, right, sums, input_precision="ieee")
    tl.store(
        out + rows[:, None] * n + cols[None, :], sums, (rows[:, None] < m) & (cols[None, :] < n)
    )


def matmul(a, b, out):
    (m, k), n = a.shape, b.shape[1]
    grid = (triton.cdiv(m, BLOCK_M), triton.cdiv(n, BLOCK_N))
    matmul_kernel[grid](
        a, b, out, m, n, k, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, num_warps=WARPS
    )
