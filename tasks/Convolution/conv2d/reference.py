"""2D convolution with channels last: square filters of odd size, padded by half of it."""

import torch


def reference(x, weight, bias, stride):
    result = torch.nn.functional.conv2d(
        x.permute(0, 3, 1, 2),
        weight.permute(0, 3, 1, 2),
        bias,
        stride=stride,
        padding=weight.shape[1] // 2,
    )
    return result.permute(0, 2, 3, 1)


def magnitude(x, weight, bias, stride):
    return reference(x.abs(), weight.abs(), bias.abs(), stride)


def reduction(case):
    return case["kernel"] ** 2 * case["channels"]


def inputs(case, draw):
    rows, cols = case["stride"] * case["height"], case["stride"] * case["width"]
    kernel, channels, filters = case["kernel"], case["channels"], case["filters"]
    # About one over the root of the summands, so that results keep the scale of `x`; a power of
    # two, so that integers and their sums stay exact.
    scale = 2.0 ** -(reduction(case).bit_length() // 2)
    return {
        "x": draw.normal((case["batch"], rows, cols, channels)),
        "weight": draw.normal((filters, kernel, kernel, channels), scale),
        "bias": draw.uniform((filters,), -1.0, 1.0),
    }


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    pixels, filters = case["batch"] * case["height"] * case["width"], case["filters"]
    # Filters of one pixel step over what lies between.
    read = pixels * case["channels"] * (case["stride"] ** 2 if case["kernel"] > 1 else 1)
    weights = filters * (reduction(case) + 1)
    moved = (read + weights + pixels * filters) * item
    return moved, 2 * pixels * filters * reduction(case)
