"""Pool the features inside every box into `bins` x `bins` values (He et al., 2017).

`centres` and `sizes` hold (y, x) and (height, width) as shares of image `images[r]`. A side of a
box is cut into 2*bins equal steps, with a sample in the middle of each. Sample s of box r has the
pixel coordinate

    y = (centres[r, 0] + sizes[r, 0] * ((s + 0.5) / (2*bins) - 0.5)) * height - 0.5

limited to 0 ... height - 1, and likewise x with the width. The feature there is interpolated
bilinearly from the four pixels around it. out[r, c, i, j] is the mean of the samples 2*i and 2*i +
1 in y times 2*j and 2*j + 1 in x. Coordinates and sums are float32 or better.
"""

import torch


def reference(x, images, centres, sizes, bins):
    bins, (height, width) = int(bins), x.shape[2:]
    steps = torch.arange(2 * bins, device=x.device, dtype=centres.dtype)
    steps = (steps + 0.5) / (2 * bins) - 0.5
    y = (centres[:, :1] + sizes[:, :1] * steps) * height - 0.5
    x_at = (centres[:, 1:] + sizes[:, 1:] * steps) * width - 0.5
    (top, bottom, f), (left, right, g) = _around(y, height), _around(x_at, width)
    planes, image = x.permute(0, 2, 3, 1).float(), images[:, None, None]
    f, g = f[:, :, None, None], g[:, None, :, None]

    def row(rows):
        rows = rows[:, :, None]
        first, last = planes[image, rows, left[:, None]], planes[image, rows, right[:, None]]
        return first * (1 - g) + last * g

    samples = row(top) * (1 - f) + row(bottom) * f
    pooled = samples.unflatten(2, (bins, 2)).unflatten(1, (bins, 2)).mean(dim=(2, 4))
    return pooled.permute(0, 3, 1, 2).to(x.dtype)


def _around(place, size):
    """Return the pixels before and after a coordinate, and its distance from the first."""
    place = place.clamp(0, size - 1)
    first = place.floor()
    index = first.long()
    return index, (index + 1).clamp(max=size - 1), place - first


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    channels, boxes, bins = case["channels"], case["boxes"], case["bins"] ** 2
    pixels = case["batch"] * case["height"] * case["width"]
    read = pixels * (1 - (1 - 1 / pixels) ** (boxes * bins * 4))
    return int((read + boxes * bins) * channels * item) + 24 * boxes, 32 * boxes * bins * channels
