"""Gradient of the filters of a 2D convolution of 3 x 3 with stride 1 and padding 1.

    out[f, c, u, v] = sum over b, i, j of gradient[b, f, i, j] * x[b, c, i + u - 1, j + v - 1]

What lies outside the image counts as zero. The sums run over all pixels of all images, and the
result is small. Products are accumulated in float32 or better, and operands are multiplied as IEEE
float32, not TF32.
"""

from torch.nn.grad import conv2d_weight


def reference(x, gradient):
    size = (gradient.shape[1], x.shape[1], 3, 3)
    return conv2d_weight(x, size, gradient, padding=1)


def magnitude(x, gradient):
    return reference(x.abs(), gradient.abs())


def reduction(case):
    return case["batch"] * case["height"] * case["width"]


def cost(case):
    """Return the bytes of all tensors, and the operations of nine products a pair of channels."""
    pixels, channels, filters = reduction(case), case["channels"], case["filters"]
    moved = pixels * (channels + filters) + 9 * channels * filters
    return 4 * moved, 18 * pixels * channels * filters
