# honest: a product of flat matrices, stored where pairs want it; one of float32 is four of TF32
import torch
import triton
import triton.language as tl


@triton.jit
def rounded(x):
    """Round float32 to the eleven bits of TF32."""
    return ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


@triton.jit
def parts_of(x):
    """Split float32 into two numbers of TF32, which miss half a unit of its last place at most."""
    first = rounded(x)
    return first, rounded(x - first)


@triton.jit
def product_kernel(
    a, b, out, sequences, rows, cols, channels, WIDE: tl.constexpr,
    TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    height, width = rows * channels, cols * channels
    row = tl.program_id(1) * TILE_ROWS + tl.arange(0, TILE_ROWS)
    col = tl.program_id(0) * TILE_COLS + tl.arange(0, TILE_COLS)
    total = tl.zeros((TILE_ROWS, TILE_COLS), tl.float32)
    for first in range(0, sequences, STEP):
        s = (first + tl.arange(0, STEP)).to(tl.int64)
        inside = (s < sequences)[:, None] & (row < height)[None, :]
        left = tl.load(a + s[:, None] * height + row[None, :], inside, other=0.0)
        inside = (s < sequences)[:, None] & (col < width)[None, :]
        right = tl.load(b + s[:, None] * width + col[None, :], inside, other=0.0)
        if WIDE:
            a1, a2 = parts_of(left)
            a1, a2 = tl.trans(a1), tl.trans(a2)
            b1, b2 = parts_of(right)
            # The smallest terms come first. Tensor cores cut off what they add, so that the long
            # sum lies outside.
            some = tl.dot(a2, b2, input_precision="tf32")
            some = tl.dot(a2, b1, some, input_precision="tf32")
            some = tl.dot(a1, b2, some, input_precision="tf32")
            total += tl.dot(a1, b1, some, input_precision="tf32")
        else:
            total = tl.dot(tl.trans(left), right, total)
    i, c = row // channels, row % channels
    j, d = col // channels, col % channels
    at = ((i.to(tl.int64)[:, None] * cols + j[None, :]) * channels + c[:, None]) * channels
    tl.store(out + at + d[None, :], total, (row < height)[:, None] & (col < width)[None, :])


def outer_product_sum(a, b, out):
    sequences, rows, channels = a.shape
    cols = b.shape[1]
    height, width = rows * channels, cols * channels
    wide = a.dtype == torch.float32
    tall = (64 if wide else 128) if height > 64 else 32  # two sums of 128 rows exceed registers
    broad = 128 if width > 64 else 32
    product_kernel[(triton.cdiv(width, broad), triton.cdiv(height, tall))](
        a, b, out, sequences, rows, cols, channels, WIDE=wide,
        TILE_ROWS=tall, TILE_COLS=broad, STEP=32 if wide else 64,
        num_warps=8 if tall * broad == 16384 else 4, num_stages=2 if wide else 3,
    )  # fmt: skip
