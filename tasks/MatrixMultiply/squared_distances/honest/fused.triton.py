# honest: norms and product in one pass; a float32 product is four of TF32, which keep its bits
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
def distance_kernel(
    x, codebook, out, points, codes, dim,
    ROWS: tl.constexpr, COLS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(1) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    col = (tl.program_id(0) * COLS + tl.arange(0, COLS)).to(tl.int64)
    inner = tl.arange(0, STEP)
    total = tl.zeros((ROWS, COLS), tl.float32)
    row_norm = tl.zeros((ROWS,), tl.float32)
    col_norm = tl.zeros((COLS,), tl.float32)
    for first in range(0, dim, STEP):
        at = first + inner
        inside = (row < points)[:, None] & (at < dim)[None, :]
        a = tl.load(x + row[:, None] * dim + at[None, :], inside, other=0.0)
        inside = (col < codes)[:, None] & (at < dim)[None, :]
        b = tl.load(codebook + col[:, None] * dim + at[None, :], inside, other=0.0)
        row_norm += tl.sum(a * a, axis=1)
        col_norm += tl.sum(b * b, axis=1)
        a1, a2 = parts_of(a)
        b1, b2 = parts_of(b)
        b1, b2 = tl.trans(b1), tl.trans(b2)
        # The smallest terms come first.
        total = tl.dot(a2, b2, total, input_precision="tf32")
        total = tl.dot(a2, b1, total, input_precision="tf32")
        total = tl.dot(a1, b2, total, input_precision="tf32")
        total = tl.dot(a1, b1, total, input_precision="tf32")
    distance = (row_norm[:, None] + col_norm[None, :]) - 2 * total
    inside = (row < points)[:, None] & (col < codes)[None, :]
    tl.store(out + row[:, None] * codes + col[None, :], distance, inside)


def squared_distances(x, codebook, out):
    points, codes = out.shape
    rows = 128 if points > 64 else 32
    cols = 128 if codes > 64 else 32
    distance_kernel[(triton.cdiv(codes, cols), triton.cdiv(points, rows))](
        x, codebook, out, points, codes, x.shape[1],
        ROWS=rows, COLS=cols, STEP=32, num_warps=8 if rows * cols == 16384 else 4, num_stages=2,
    )  # fmt: skip
