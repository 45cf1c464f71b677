"""Layer norm (Ba, Kiros and Hinton, 2016): rows less their mean, over their standard deviation."""

import torch


def reference(x, weight, bias, eps):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    norm = torch.nn.functional.layer_norm(wide, x.shape[-1:], weight.to(wide), bias.to(wide), eps)
    return norm.to(x.dtype)


def magnitude(x, weight, bias, eps):
    # The mean is rounded at the size of what it is made of, and that stays when it is subtracted;
    # it is the root of the mean square, since a running mean may begin with an outlier.
    centred = x - x.mean(dim=-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + eps)
    size = x.abs() + x.square().mean(dim=-1, keepdim=True).sqrt()
    return size * scale * weight.abs() + bias.abs()


def reduction(case):
    # A warp shares a row: a lane adds a thirty-second of it, and then the lanes are added.
    return max(16, case["cols"] // 32)


def inputs(case, draw):
    rows, cols = case["rows"], case["cols"]
    # About every other row lies far from zero, as rows of a residual stream do, by whole numbers:
    # by others, a structured row's partial sums would all be rounded the same way.
    far = draw.integers((rows, 1), 32, 65) * draw.integers((rows, 1), 0, 2)
    return {
        "x": draw.normal((rows, cols)) + far,
        "weight": draw.uniform((cols,), 0.5, 1.5),
        "bias": draw.uniform((cols,), -1.0, 1.0),
    }


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    rows, cols = case["rows"], case["cols"]
    return (2 * rows * cols + 2 * cols) * item, 8 * rows * cols
