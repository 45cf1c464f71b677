"""Triton implementations of native operators, one each, as lines for a template."""

from __future__ import annotations

from benchmarks.triton_answers.native_elements import ACTIVATIONS, ELEMENTS, OPTIMIZERS
from benchmarks.triton_answers.native_rows import ALGEBRA, LOSSES, NORMS, REDUCTIONS
from benchmarks.triton_answers.templates import Flat, Product, Rows, Template, linear

PLANE = {
    "height": "x.shape[-2]",
    "width": "x.shape[-1]",
    "out_height": "out.shape[-2]",
    "out_width": "out.shape[-1]",
}
COORDINATES = """\
        c = place % out_width
        r = place // out_width % out_height
        plane = place // out_width // out_height
"""
WINDOW = """\
        for u in range(kernel):
            for v in range(kernel):
                y = r * stride + u - padding
                z = c * stride + v - padding
                known = inside & (y >= 0) & (y < height) & (z >= 0) & (z < width)
"""

POOLS: dict[str, Template] = {
    "adaptive_avg_pool2d": Flat(
        """
        c = place % bins
        r = place // bins % bins
        plane = place // bins // bins
        top = r * height // bins
        left = c * width // bins
        bottom = ((r + 1) * height + bins - 1) // bins
        right = ((c + 1) * width + bins - 1) // bins
        total = tl.zeros((BLOCK,), tl.float32)
        for u in range((height + bins - 1) // bins + 1):
            for v in range((width + bins - 1) // bins + 1):
                known = inside & (top + u < bottom) & (left + v < right)
                at = (plane * height + top + u) * width + left + v
                total += tl.load(x_ptr + at, known, 0).to(tl.float32)
        out = total / ((bottom - top) * (right - left)).to(tl.float32)
        """,
        sizes={"height": "x.shape[-2]", "width": "x.shape[-1]"},
        block=128,
    ),
    "avg_pool2d": Flat(
        COORDINATES
        + "        total = tl.zeros((BLOCK,), tl.float32)\n"
        + WINDOW
        + """\
                at = (plane * height + y) * width + z
                total += tl.load(x_ptr + at, known, 0).to(tl.float32)
        out = total / (kernel * kernel)
""",
        sizes=PLANE,
    ),
    "max_pool2d": Flat(
        COORDINATES
        + '        out = tl.full((BLOCK,), float("-inf"), tl.float32)\n'
        + WINDOW
        + """\
                at = (plane * height + y) * width + z
                value = tl.load(x_ptr + at, known, float("-inf")).to(tl.float32)
                out = tl.maximum(out, value)
""",
        sizes=PLANE,
    ),
    "max_pool3d": Flat(
        """
        c = place % out_width
        r = place // out_width % out_height
        t = place // out_width // out_height % out_frames
        plane = place // out_width // out_height // out_frames
        out = tl.full((BLOCK,), float("-inf"), tl.float32)
        for w in range(kernel):
            for u in range(kernel):
                for v in range(kernel):
                    y = (plane * frames + t * stride + w) * height + r * stride + u
                    at = y * width + c * stride + v
                    out = tl.maximum(out, tl.load(x_ptr + at, inside, 0).to(tl.float32))
        """,
        sizes={**PLANE, "frames": "x.shape[1]", "out_frames": "out.shape[1]"},
    ),
    "generalized_mean_pool": Rows(
        """
        total = SUM(tl.exp(power * tl.log(tl.maximum(x, eps))))
        out = tl.exp(tl.log(total / cols) / power)
        """,
        {"out": "row"},
    ),
}

CONVOLUTIONS: dict[str, Template] = {
    "depthwise_conv1d": Flat(
        """
        t = place % time
        channel = place // time % channels
        out = bias
        for u in range(kernel):
            s = t + u - kernel // 2
            w = tl.load(weight_ptr + channel * kernel + u, inside, 0).to(tl.float32)
            y = tl.load(x_ptr + place - t + s, inside & (s >= 0) & (s < time), 0)
            out += w * y.to(tl.float32)
        """,
        {"bias": "channel"},
        {"channels": "x.shape[1]", "time": "x.shape[2]", "kernel": "weight.shape[1]"},
    ),
    "depthwise_conv2d": Flat(
        COORDINATES
        + "        channel = plane % channels\n        padding = kernel // 2\n        out = bias\n"
        + WINDOW
        + """\
                w = tl.load(weight_ptr + (channel * kernel + u) * kernel + v, inside, 0)
                at = (plane * height + y) * width + z
                out += w.to(tl.float32) * tl.load(x_ptr + at, known, 0).to(tl.float32)
""",
        {"bias": "channel"},
        {**PLANE, "channels": "x.shape[1]", "kernel": "weight.shape[1]"},
    ),
    "conv1d": Product(
        "out = total + bias",
        {
            "x": "(z * channels + l // kernel) * time + j * stride + l % kernel - kernel // 2",
            "weight": "i * k + l",
            "bias": "i",
        },
        {"channels": "x.shape[1]", "time": "x.shape[2]", "kernel": "weight.shape[2]"},
        a="weight",
        b="x",
        m="weight.shape[0]",
        n="out.shape[2]",
        k="weight.shape[1] * weight.shape[2]",
        batch="x.shape[0]",
        b_inside="(s >= 0) & (s < time)",
        b_lines="s = j * stride + l % kernel - kernel // 2",
    ),
    "pointwise_conv2d": Product(
        "out = total + bias",
        {"weight": "i * k + l", "bias": "i"},
        a="weight",
        b="x",
        m="weight.shape[0]",
        n="x.shape[2] * x.shape[3]",
        k="weight.shape[1]",
        batch="x.shape[0]",
    ),
}

PRODUCTS: dict[str, Template] = {
    "addmm": Product("out = beta * c + alpha * total"),
    "batched_matmul": Product("out = total", batch="a.shape[0]"),
    "gram_matrix": Product(
        "out = total",
        {"x": "i * k + l"},
        a="x",
        b="x",
        m="x.shape[0]",
        n="x.shape[0]",
        k="x.shape[1]",
        b_at="j * k + l",
    ),
    "head_matmul": Product(
        "out = total",
        {
            "x": "(i * heads + z) * k + l",
            "weight": "(z * k + l) * n + j",
            "out": "(i * heads + z) * n + j",
        },
        {"heads": "x.shape[1]"},
        a="x",
        b="weight",
        m="x.shape[0]",
        n="weight.shape[2]",
        k="x.shape[2]",
        batch="x.shape[1]",
    ),
    "linear": linear(
        "out = total + bias",
        {"bias": "j"},
    ),
    "weight_gradient": Product(
        "out = total",
        {"gradient": "l * m + i", "x": "l * n + j"},
        a="gradient",
        b="x",
        m="gradient.shape[1]",
        n="x.shape[1]",
        k="x.shape[0]",
    ),
    "linear_gelu": linear(
        """
        y = total + bias
        out = 0.5 * y * (1 + tanh(0.7978845608028654 * (y + 0.044715 * y * y * y)))
        """,
        {"bias": "j"},
    ),
    "int8_static_matmul": linear(
        "out = total.to(tl.float32) * x_scales * scales + bias",
        {"x_scales": "i", "scales": "j", "bias": "j"},
        whole=True,
    ),
    "matrix_vector": Rows("out = SUM(weight * x)", {"x": "col", "out": "row"}),
}

NATIVE: dict[str, Template] = {
    **ACTIVATIONS,
    **OPTIMIZERS,
    **POOLS,
    **CONVOLUTIONS,
    **PRODUCTS,
    **NORMS,
    **REDUCTIONS,
    **LOSSES,
    **ELEMENTS,
    **ALGEBRA,
}
"""Templates by the name of the operator."""
