# honest: a tile of rows a program, for rows that are short
import triton
import triton.language as tl

TILE = 4096


@triton.jit
def rms_norm_kernel(x, weight, out, rows, cols, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, BLOCK)
    places = row[:, None] * cols + col[None, :]
    mask = (row < rows)[:, None] & (col < cols)[None, :]
    values = tl.load(x + places, mask, other=0.0).to(tl.float32)
    weights = tl.load(weight + col, col < cols, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(values * values, axis=1) / cols + eps)
    tl.store(out + places, values * scale[:, None] * weights[None, :], mask)


def rms_norm(x, weight, out, eps):
    rows, cols = x.shape
    block = triton.next_power_of_2(cols)
    tile = max(1, TILE // block)
    rms_norm_kernel[(triton.cdiv(rows, tile),)](
        x, weight, out, rows, cols, eps, ROWS=tile, BLOCK=block
    )
