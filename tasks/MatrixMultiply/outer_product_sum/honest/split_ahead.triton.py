# honest: a product of flat matrices, whose float32 is split once into numbers of TF32
import torch
import triton
import triton.language as tl

STEP = 32


@triton.jit
def rounded(x):
    """Round float32 to the eleven bits of TF32."""
    return ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


@triton.jit
def split_kernel(x, high, low, sequences, width, padded, STEP: tl.constexpr, COLS: tl.constexpr):
    """Transpose a matrix and split it into two numbers of TF32 each, with zeros behind each row."""
    s = (tl.program_id(0) * STEP + tl.arange(0, STEP)).to(tl.int64)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    inside = (s < sequences)[:, None] & (col < width)[None, :]
    values = tl.trans(tl.load(x + s[:, None] * width + col[None, :], inside, other=0.0))
    first = rounded(values)
    at = col.to(tl.int64)[:, None] * padded + s[None, :]
    tl.store(high + at, first, (col < width)[:, None])
    tl.store(low + at, rounded(values - first), (col < width)[:, None])


@triton.jit
def place(out, row, col, cols, channels):
    """Return where the products of flat rows and columns belong."""
    i, c = (row // channels).to(tl.int64), row % channels
    j, d = col // channels, col % channels
    return out + ((i[:, None] * cols + j[None, :]) * channels + c[:, None]) * channels + d[None, :]


@triton.jit
def wide_kernel(
    a_high, a_low, b_high, b_low, out, rows, cols, channels, steps,
    TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    height, width = rows * channels, cols * channels
    row = tl.program_id(1) * TILE_ROWS + tl.arange(0, TILE_ROWS)
    col = tl.program_id(0) * TILE_COLS + tl.arange(0, TILE_COLS)
    inner = tl.arange(0, STEP)
    # Rows behind the last one are read as the last one, and not stored.
    row_at = tl.minimum(row, height - 1).to(tl.int64)[:, None] * (steps * STEP) + inner[None, :]
    col_at = tl.minimum(col, width - 1).to(tl.int64)[None, :] * (steps * STEP) + inner[:, None]
    total = tl.zeros((TILE_ROWS, TILE_COLS), tl.float32)
    for step in range(steps):
        first = step * STEP
        a1, a2 = tl.load(a_high + row_at + first), tl.load(a_low + row_at + first)
        b1, b2 = tl.load(b_high + col_at + first), tl.load(b_low + col_at + first)
        # The smallest terms come first. Tensor cores cut off what they add, so that the long sum
        # lies outside.
        some = tl.dot(a2, b1, input_precision="tf32")
        some = tl.dot(a1, b2, some, input_precision="tf32")
        total += tl.dot(a1, b1, some, input_precision="tf32")
    inside = (row < height)[:, None] & (col < width)[None, :]
    tl.store(place(out, row, col, cols, channels), total, inside)


@triton.jit
def half_kernel(
    a, b, out, sequences, rows, cols, channels,
    TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    height, width = rows * channels, cols * channels
    row = tl.program_id(1) * TILE_ROWS + tl.arange(0, TILE_ROWS)
    col = tl.program_id(0) * TILE_COLS + tl.arange(0, TILE_COLS)
    total = tl.zeros((TILE_ROWS, TILE_COLS), tl.float32)
    for first in range(0, sequences, STEP):
        s = (first + tl.arange(0, STEP)).to(tl.int64)
        known = (s < sequences)[:, None]
        left = tl.load(a + s[:, None] * height + row[None, :], known & (row < height)[None, :], 0.0)
        right = tl.load(b + s[:, None] * width + col[None, :], known & (col < width)[None, :], 0.0)
        total = tl.dot(tl.trans(left), right, total)
    inside = (row < height)[:, None] & (col < width)[None, :]
    tl.store(place(out, row, col, cols, channels), total, inside)


def split(x):
    sequences, width = x.shape[0], x.shape[1] * x.shape[2]
    steps = triton.cdiv(sequences, STEP)
    high, low = torch.empty((2, width, steps * STEP), dtype=torch.float32, device=x.device)
    split_kernel[(steps, triton.cdiv(width, 64))](
        x, high, low, sequences, width, steps * STEP, STEP=STEP, COLS=64
    )
    return high, low


def outer_product_sum(a, b, out):
    sequences, rows, channels = a.shape
    cols = b.shape[1]
    height, width = rows * channels, cols * channels
    tall = 128 if height > 64 else 64
    broad = 128 if width > 64 else 64
    grid = triton.cdiv(width, broad), triton.cdiv(height, tall)
    warps = 8 if tall * broad == 16384 else 4
    if a.dtype == torch.float32:
        wide_kernel[grid](
            *split(a), *split(b), out, rows, cols, channels, triton.cdiv(sequences, STEP),
            TILE_ROWS=tall, TILE_COLS=broad, STEP=STEP, num_warps=warps, num_stages=3,
        )  # fmt: skip
    else:
        half_kernel[grid](
            a, b, out, sequences, rows, cols, channels,
            TILE_ROWS=tall, TILE_COLS=broad, STEP=64, num_warps=warps, num_stages=3,
        )  # fmt: skip
