"""Matrix product by heads, one program per tile of the result; IEEE products for float32."""

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
def head_matmul_kernel(
    x_ptr,
    weight_ptr,
    out_ptr,
    m,
    n,
    k,
    heads,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    col = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    head = tl.program_id(2).to(tl.int64)
    depths = tl.arange(0, BLOCK_K)

    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        depth = first + depths[None, :]
        left = tl.load(x_ptr + (row * heads + head) * k + depth, (row < m) & (depth < k), other=0.0)
        depth = first + depths[:, None]
        right = tl.load(
            weight_ptr + (head * k + depth) * n + col, (depth < k) & (col < n), other=0.0
        )
        total = tl.dot(left, right, total, input_precision="ieee")

    mask = (row < m) & (col < n)
    tl.store(out_ptr + (row * heads + head) * n + col, total, mask)


def head_matmul(x, weight, out):
    (m, heads, k), n = x.shape, weight.shape[2]
    grid = (triton.cdiv(m, BLOCK_M), triton.cdiv(n, BLOCK_N), heads)
    head_matmul_kernel[grid](
        x,
        weight,
        out,
        m,
        n,
        k,
        heads,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        num_warps=WARPS,
        num_stages=STAGES,
    )
