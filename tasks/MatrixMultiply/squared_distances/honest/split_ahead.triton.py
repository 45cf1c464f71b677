# honest: rows are split once into numbers of TF32; a float32 product is three of these
import torch
import triton
import triton.language as tl

STEP = 32


@triton.jit
def rounded(x):
    """Round float32 to the eleven bits of TF32."""
    return ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


@triton.jit
def split_kernel(x, high, low, norms, dim, padded, WIDTH: tl.constexpr):
    """Split a row into two rows of TF32, with zeros behind, and sum the squares of it."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, WIDTH)
    values = tl.load(x + row * dim + at, at < dim, other=0.0)
    first = rounded(values)
    tl.store(high + row * padded + at, first, at < padded)
    tl.store(low + row * padded + at, rounded(values - first), at < padded)
    tl.store(norms + row, tl.sum(values * values))


@triton.jit
def distance_kernel(
    x_high, x_low, x_norms, code_high, code_low, code_norms, out, points, codes, steps,
    ROWS: tl.constexpr, COLS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    inner = tl.arange(0, STEP)
    # Rows behind the last one are read as the last one, and not stored.
    row_at = tl.minimum(row, points - 1).to(tl.int64)[:, None] * (steps * STEP) + inner[None, :]
    col_at = tl.minimum(col, codes - 1).to(tl.int64)[None, :] * (steps * STEP) + inner[:, None]
    total = tl.zeros((ROWS, COLS), tl.float32)
    for step in range(steps):
        first = step * STEP
        a1, a2 = tl.load(x_high + row_at + first), tl.load(x_low + row_at + first)
        b1, b2 = tl.load(code_high + col_at + first), tl.load(code_low + col_at + first)
        # The smallest terms come first. Tensor cores cut off what they add, so that the long sum
        # lies outside.
        some = tl.dot(a2, b1, input_precision="tf32")
        some = tl.dot(a1, b2, some, input_precision="tf32")
        total += tl.dot(a1, b1, some, input_precision="tf32")
    row_norm = tl.load(x_norms + row, row < points, other=0.0)
    col_norm = tl.load(code_norms + col, col < codes, other=0.0)
    distance = (row_norm[:, None] + col_norm[None, :]) - 2 * total
    at = row.to(tl.int64)[:, None] * codes + col[None, :]
    tl.store(out + at, distance, (row < points)[:, None] & (col < codes)[None, :])


def split(x):
    rows, dim = x.shape
    steps = triton.cdiv(dim, STEP)
    high, low = torch.empty((2, rows, steps * STEP), dtype=torch.float32, device=x.device)
    norms = torch.empty(rows, dtype=torch.float32, device=x.device)
    width = triton.next_power_of_2(steps * STEP)
    split_kernel[(rows,)](
        x, high, low, norms, dim, steps * STEP, WIDTH=width, num_warps=max(1, width // 256)
    )
    return high, low, norms


def squared_distances(x, codebook, out):
    points, codes = out.shape
    rows = 128 if points > 64 else 64
    cols = 128 if codes > 64 else 64
    distance_kernel[(triton.cdiv(codes, cols), triton.cdiv(points, rows))](
        *split(x), *split(codebook), out, points, codes, triton.cdiv(x.shape[1], STEP),
        ROWS=rows, COLS=cols, STEP=STEP, num_warps=8 if rows * cols == 16384 else 4, num_stages=3,
    )  # fmt: skip
