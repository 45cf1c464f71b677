# honest: tiles of whole rows, each in a block of the next power of two
import triton
import triton.language as tl

TILE = 4096


@triton.jit
def layer_norm_kernel(
    x, weight, bias, out, rows, cols, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, BLOCK)
    places = row[:, None] * cols + col[None, :]
    inside = (col < cols)[None, :]
    mask = (row < rows)[:, None] & inside
    values = tl.load(x + places, mask, other=0.0).to(tl.float32)
    weights = tl.load(weight + col, col < cols, other=0.0).to(tl.float32)
    shifts = tl.load(bias + col, col < cols, other=0.0).to(tl.float32)
    centred = tl.where(inside, values - tl.sum(values, axis=1)[:, None] / cols, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1) / cols + eps)
    tl.store(out + places, centred * scale[:, None] * weights[None, :] + shifts[None, :], mask)


def layer_norm(x, weight, bias, out, eps):
    rows, cols = x.shape
    block = triton.next_power_of_2(cols)
    tile = max(1, TILE // block)
    layer_norm_kernel[(triton.cdiv(rows, tile),)](
        x, weight, bias, out, rows, cols, eps, ROWS=tile, BLOCK=block, num_warps=8
    )
