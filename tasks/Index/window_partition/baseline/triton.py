"""Partition of shifted images into windows, one program per block of elements."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def window_partition_kernel(
    x_ptr, out_ptr, count, grid_rows, grid_cols, channels, window, shift, BLOCK: tl.constexpr
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    channel = offsets % channels
    window_col = offsets // channels % window
    window_row = offsets // channels // window % window
    grid_col = offsets // channels // window // window % grid_cols
    grid_row = offsets // channels // window // window // grid_cols % grid_rows
    image = offsets // channels // window // window // grid_cols // grid_rows
    row = (grid_row * window + window_row + shift) % (grid_rows * window)
    col = (grid_col * window + window_col + shift) % (grid_cols * window)
    pixel = (image * grid_rows * window + row) * grid_cols * window + col
    value = tl.load(x_ptr + pixel * channels + channel, mask, other=0.0)
    tl.store(out_ptr + offsets, value, mask)


def window_partition(x, out, window, shift):
    count = out.numel()
    grid_rows = x.shape[1] // window
    grid_cols = x.shape[2] // window
    channels = x.shape[3]
    window_partition_kernel[(triton.cdiv(count, BLOCK),)](
        x, out, count, grid_rows, grid_cols, channels, window, shift, BLOCK=BLOCK, num_warps=WARPS
    )
