"""Gram matrix, one program per tile of the result; IEEE products for float32."""

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
def gram_matrix_kernel(
    x_ptr, out_ptr, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    col = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    depths = tl.arange(0, BLOCK_K)

    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        depth = first + depths[None, :]
        left = tl.load(x_ptr + row * k + depth, (row < m) & (depth < k), other=0.0)
        depth = first + depths[:, None]
        right = tl.load(x_ptr + col * k + depth, (depth < k) & (col < n), other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")

    mask = (row < m) & (col < n)
    tl.store(out_ptr + row * n + col, total, mask)


def gram_matrix(x, out):
    (m, k), n = x.shape, x.shape[0]
    grid = (triton.cdiv(m, BLOCK_M), triton.cdiv(n, BLOCK_N))
    gram_matrix_kernel[grid](
        x,
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
