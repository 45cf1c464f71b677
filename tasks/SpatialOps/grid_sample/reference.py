"""Sample every channel of an image where a grid points, bilinearly.

`grid[b, i, j]` holds (u, v): u along the width and v along the height, where -1 and 1 are the
outer edges of the first and last pixel. The point lies at the pixel coordinate

    p = ((u + 1) * width - 1) / 2,   q = ((v + 1) * height - 1) / 2

and out[b, :, i, j] is the mean of the four pixels around it, each weighted by (1 - |p - column|)
and (1 - |q - row|). Pixels outside the image count as zero. Coordinates, weights and sums are
float32 or better. This is `grid_sample(..., align_corners=False)` of PyTorch.
"""

import torch


def reference(x, grid):
    wide = x.float()
    sampled = torch.nn.functional.grid_sample(wide, grid.to(wide.dtype), align_corners=False)
    return sampled.to(x.dtype)


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    batch, channels = case["batch"], case["channels"]
    pixels, points = case["height"] * case["width"], case["out_height"] * case["out_width"]
    # Four in five coordinates are inside; a pixel is read where it is next to a point.
    read = pixels * (1 - (1 - 1 / pixels) ** points)
    moved = batch * (channels * (read + points) * item + 8 * points)
    return int(moved), 8 * batch * channels * points
