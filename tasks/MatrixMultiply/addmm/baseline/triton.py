"""Scaled matrix product and sum, one program per tile of the result; IEEE products for float32."""

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
def addmm_kernel(
    c_ptr,
    a_ptr,
    b_ptr,
    out_ptr,
    m,
    n,
    k,
    alpha,
    beta,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    col = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    depths = tl.arange(0, BLOCK_K).to(tl.int64)

    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        depth = first + depths[None, :]
        left = tl.load(a_ptr + row * k + depth, (row < m) & (depth < k), other=0.0)
        depth = first + depths[:, None]
        right = tl.load(b_ptr + depth * n + col, (depth < k) & (col < n), other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")

    mask = (row < m) & (col < n)
    c = tl.load(c_ptr + row * n + col, mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * n + col, beta * c + alpha * total, mask)


def addmm(c, a, b, out, alpha, beta):
    (m, k), n = a.shape, b.shape[1]
    grid = (triton.cdiv(m, BLOCK_M), triton.cdiv(n, BLOCK_N))
    addmm_kernel[grid](
        c,
        a,
        b,
        out,
        m,
        n,
        k,
        alpha,
        beta,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        num_warps=WARPS,
        num_stages=STAGES,
    )
