# honest: without tensor cores, a row of the result a program, products summed by blocks of depth
import triton
import triton.language as tl

BLOCK_N = 64
BLOCK_K = 64


@triton.jit
def matmul_kernel(a, b, out, n, k, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    sums = tl.zeros((BLOCK_N,), tl.float32)
    for first in range(0, k, BLOCK_K):
        depth = (first + tl.arange(0, BLOCK_K)).to(tl.int64)
        mask = (depth[:, None] < k) & (cols[None, :] < n)
        left = tl.load(a + row * k + depth, depth < k, other=0.0).to(tl.float32)
        right = tl.load(b + depth[:, None] * n + cols[None, :], mask, other=0.0).to(tl.float32)
        sums += tl.sum(left[:, None] * right, axis=0)
    tl.store(out + row * n + cols, sums, cols < n)


def matmul(a, b, out):
    (m, k), n = a.shape, b.shape[1]
    grid = (m, triton.cdiv(n, BLOCK_N))
    matmul_kernel[grid](a, b, out, n, k, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K)
