"""Convolution of sequences as a matrix product, one program per tile of filters and times; IEEE
products for float32.
"""

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
def conv1d_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    m,
    n,
    k,
    channels,
    time,
    kernel,
    stride,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    col = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    sequence = tl.program_id(2).to(tl.int64)
    depths = tl.arange(0, BLOCK_K)

    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        depth = first + depths[None, :]
        left = tl.load(weight_ptr + row * k + depth, (row < m) & (depth < k), other=0.0)
        depth = first + depths[:, None]
        t = col * stride + depth % kernel - kernel // 2
        valid = (depth < k) & (col < n) & (t >= 0) & (t < time)
        right = tl.load(
            x_ptr + (sequence * channels + depth // kernel) * time + t, valid, other=0.0
        )
        total = tl.dot(left, right, total, input_precision="ieee")

    mask = (row < m) & (col < n)
    bias = tl.load(bias_ptr + row, row < m, other=0.0).to(tl.float32)
    tl.store(out_ptr + (sequence * m + row) * n + col, total + bias, mask)


def conv1d(x, weight, bias, out, stride):
    (m, channels, kernel), (sequences, _, time) = weight.shape, x.shape
    n, k = out.shape[2], channels * kernel
    grid = (triton.cdiv(m, BLOCK_M), triton.cdiv(n, BLOCK_N), sequences)
    conv1d_kernel[grid](
        x,
        weight,
        bias,
        out,
        m,
        n,
        k,
        channels,
        time,
        kernel,
        stride,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        num_warps=WARPS,
        num_stages=STAGES,
    )
