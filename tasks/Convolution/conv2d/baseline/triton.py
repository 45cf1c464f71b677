"""2D convolution as a matrix product of pixels and filters, whose left operand is gathered from the
images as it is needed; IEEE products for float32.
"""

import triton
import triton.language as tl

# Tiles where operands have 16 bits, which tensor cores multiply: pixels, filters, and steps.
# arena: tune BLOCK_M 32 64 128 256
BLOCK_M = 128
# arena: tune BLOCK_N 32 64 128 256
BLOCK_N = 128
# arena: tune BLOCK_K 32 64 128
BLOCK_K = 64
# arena: tune WARPS 4 8 16
WARPS = 8
# arena: tune STAGES 2 3 4
STAGES = 3

# Tiles of float32, which they do not: products go one by one.
# arena: tune WIDE_M 16 32 64 128
WIDE_M = 64
# arena: tune WIDE_N 16 32 64 128
WIDE_N = 64
# arena: tune WIDE_K 16 32 64
WIDE_K = 16


@triton.jit
def conv2d_kernel(
    x,
    weight,
    bias,
    out,
    pixels,
    height,
    width,
    channels,
    filters,
    stride,
    KERNEL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depths = tl.arange(0, BLOCK_K)
    tall, wide = height * stride, width * stride
    depth = KERNEL * KERNEL * channels

    # Where the filter's first tap lies for every pixel; it may lie outside.
    top = rows // width % height * stride - KERNEL // 2
    left = rows % width * stride - KERNEL // 2
    image = (rows // (width * height)).to(tl.int64) * tall
    corner = x + ((image + top) * wide + left) * channels

    # Filters outside wrap around: they are loaded without a mask and never stored.
    filter_start = weight + (cols % filters).to(tl.int64) * depth
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, depth, BLOCK_K):
        at = first + depths
        tap, channel = at // channels, at % channels
        down, across = tap // KERNEL, tap % KERNEL
        y, z = top[:, None] + down[None, :], left[:, None] + across[None, :]
        inside = (y >= 0) & (y < tall) & (z >= 0) & (z < wide)
        inside = inside & (rows < pixels)[:, None] & (at < depth)[None, :]
        place = (down * wide + across) * channels + channel
        a = tl.load(corner[:, None] + place[None, :], inside, other=0.0)
        b = tl.load(filter_start[None, :] + at[:, None], (at < depth)[:, None], other=0.0)
        sums = tl.dot(a, b, sums, input_precision="ieee")
    sums += tl.load(bias + cols, cols < filters, other=0.0).to(tl.float32)[None, :]
    mask = (rows < pixels)[:, None] & (cols < filters)[None, :]
    tl.store(out + rows.to(tl.int64)[:, None] * filters + cols[None, :], sums, mask)


def conv2d(x, weight, bias, out, stride):
    batch, height, width, filters = out.shape
    kernel, channels = weight.shape[1], weight.shape[3]
    pixels = batch * height * width
    full = x.element_size() == 4
    block_m, block_n, block_k = (WIDE_M, WIDE_N, WIDE_K) if full else (BLOCK_M, BLOCK_N, BLOCK_K)
    block_n = min(block_n, max(16, triton.next_power_of_2(filters)))
    if pixels <= 64 * block_m:  # A small image: tiles for every multiprocessor matter more.
        block_m, block_n = min(block_m, 64), min(block_n, 64)
    conv2d_kernel[(triton.cdiv(pixels, block_m), triton.cdiv(filters, block_n))](
        x,
        weight,
        bias,
        out,
        pixels,
        height,
        width,
        channels,
        filters,
        stride,
        KERNEL=kernel,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        num_warps=4 if full or block_m < 128 else WARPS,
        num_stages=STAGES,
    )
