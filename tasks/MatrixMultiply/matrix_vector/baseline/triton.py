"""Matrix-vector product, a tile of rows a program."""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8


@triton.jit
def matrix_vector_kernel(
    weight_ptr, x_ptr, out_ptr, rows, cols, HEIGHT: tl.constexpr, WIDTH: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)[:, None]
    offsets = tl.arange(0, WIDTH)[None, :]

    sums = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        x = tl.load(x_ptr + col, col < cols, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        sums += weight * x
    tl.store(out_ptr + row, tl.sum(sums, axis=1, keep_dims=True), row < rows)


def matrix_vector(weight, x, out):
    rows, cols = weight.shape
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    matrix_vector_kernel[(triton.cdiv(rows, height),)](
        weight, x, out, rows, cols, HEIGHT=height, WIDTH=width, num_warps=WARPS
    )
