"""Shift an image cyclically, and cut it into square windows.

With n = batch index, r and c the row and column of a window in the grid, and H = grid_rows*window
and W = grid_cols*window the size of the image,

    out[(n*grid_rows + r)*grid_cols + c, i*window + j, d]
        = x[n, (r*window + i + shift) mod H, (c*window + j + shift) mod W, d]

for i and j from 0 to window - 1. `shift` is at least 0 and less than `window`. Values are copied
bit for bit. Swin transformers (Liu et al., 2021) do this before the attention of every second
block.
"""

import torch


def reference(x, window, shift):
    batch, height, width, channels = x.shape
    window, shift = int(window), int(shift)
    rolled = torch.roll(x, (-shift, -shift), dims=(1, 2))
    cut = rolled.view(batch, height // window, window, width // window, window, channels)
    return cut.transpose(2, 3).reshape(-1, window * window, channels)
