# honest: narrow rows take another variant than wide ones, by constants and numbers of warps
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["rows", "cols"])
def centre(
    x, out, rows, cols, scale, ROWS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, BLOCK)[None, :]
    mask = row < rows
    if MASKED:
        mask = mask & (col < cols)
    values = tl.load(x + row * cols + col, mask, 0.0)
    mean = tl.sum(values, 1)[:, None] / cols
    tl.store(out + row * cols + col, (values - mean) * scale, mask)


def centred(x, out, scale):
    rows, cols = x.shape
    block, some, warps = (64, 16, 1) if cols <= 64 else (1024, 1, 4)
    grid = (triton.cdiv(rows, some),)
    centre[grid](x, out, rows, cols, scale, some, block, cols != block, num_warps=warps)
