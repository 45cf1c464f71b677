"""Triton implementations of problems that `evaluation import kernelbench` writes, as templates."""

from __future__ import annotations

from benchmarks.triton_answers.templates import Flat, Product, Rows, Scan, Template, Total, linear

GELU = "0.5 * {0} * (1 + tl.erf({0} * 0.7071067811865476))"
MISH = "tl.where({0} > 20, {0}, {0} * (e * (e + 2) / (e * (e + 2) + 2)))"

ELEMENTS: dict[str, Template] = {
    "kb1_5_matrix_scalar_multiplication": Flat("out = A * s"),
    "kb1_12_matmul_with_diagonal_matrices": Flat(
        "out = A * B", {"A": "place // m"}, {"m": "B.shape[1]"}
    ),
    "kb1_19_relu": Flat("out = tl.maximum(x, 0.0)"),
    "kb1_20_leakyrelu": Flat("out = tl.where(x > 0, x, 0.01 * x)"),
    "kb1_21_sigmoid": Flat("out = sigmoid(x)"),
    "kb1_22_tanh": Flat("out = tanh(x)"),
    "kb1_25_swish": Flat("out = x * sigmoid(x)"),
    "kb1_26_gelu": Flat(f"out = {GELU.format('x')}"),
    "kb1_27_selu": Flat(
        """
        below = 1.6732632423543772 * expm1(tl.minimum(x, 0.0))
        out = 1.0507009873554805 * tl.where(x > 0, x, below)
        """
    ),
    "kb1_28_hardsigmoid": Flat("out = tl.minimum(tl.maximum(x + 3, 0.0), 6.0) / 6"),
    "kb1_29_softplus": Flat("out = tl.where(x > 20, x, softplus(x))"),
    "kb1_30_softsign": Flat("out = x / (1 + tl.abs(x))"),
    "kb1_31_elu": Flat("out = tl.where(x > 0, x, expm1(tl.minimum(x, 0.0)))"),
    "kb1_32_hardtanh": Flat("out = tl.minimum(tl.maximum(x, -1.0), 1.0)"),
    "kb1_88_mingptnewgelu": Flat(
        "out = 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))"
    ),
}

IMAGE = {"pixels": "x.shape[2] * x.shape[3]"}
OF_CHANNEL = "(col // pixels * rows + row) * pixels + col % pixels"
NORM = """
        total = SUM(x)
        mean = total / cols
        squares = SUM((x - mean) * (x - mean))
        scale = 1 / tl.sqrt(squares / cols + 1e-5)
"""
SOFTMAX = """
        largest = MAX(x)
        total = SUM(tl.exp(x - largest))
"""
MIDDLE = {
    "at": {"x": "(row // inner * cols + col) * inner + row % inner", "out": "row"},
    "sizes": {"inner": "x.shape[2]"},
    "rows": "x.shape[0] * x.shape[2]",
    "cols": "x.shape[1]",
    "together": 32,
}
"""Reduction over the middle of three dimensions."""

ROWS: dict[str, Template] = {
    "kb1_23_softmax": Rows(SOFTMAX + "        out = tl.exp(x - largest) / total"),
    "kb1_24_logsoftmax": Rows(SOFTMAX + "        out = x - largest - tl.log(total)"),
    "kb1_33_batchnorm": Rows(
        NORM + "        out = (x - mean) * scale * bn_weight + bn_bias",
        {"x": OF_CHANNEL, "out": OF_CHANNEL, "bn_weight": "row", "bn_bias": "row"},
        IMAGE,
        rows="x.shape[1]",
        cols="x.shape[0] * x.shape[2] * x.shape[3]",
    ),
    "kb1_34_instancenorm": Rows(
        NORM + "        out = (x - mean) * scale",
        rows="x.shape[0] * x.shape[1]",
        cols="x.shape[2] * x.shape[3]",
    ),
    "kb1_35_groupnorm": Rows(
        NORM + "        out = (x - mean) * scale * gn_weight + gn_bias",
        {
            "gn_weight": "row % 8 * width + col // pixels",
            "gn_bias": "row % 8 * width + col // pixels",
        },
        {"width": "x.shape[1] // 8", **IMAGE},
        rows="x.shape[0] * 8",
        cols="x.shape[1] // 8 * x.shape[2] * x.shape[3]",
    ),
    "kb1_36_rmsnorm": Rows(
        """
        squares = SUM(x * x)
        size = tl.sqrt(squares / cols + 1e-5)
        out = x / size
        """,
        {
            "x": "(row // pixels * cols + col) * pixels + row % pixels",
            "out": "(row // pixels * cols + col) * pixels + row % pixels",
        },
        IMAGE,
        rows="x.shape[0] * x.shape[2] * x.shape[3]",
        cols="x.shape[1]",
        together=32,
    ),
    "kb1_38_l1norm": Rows(
        """
        total = SUM(tl.abs(x))
        mean = total / cols
        out = x / mean
        """
    ),
    "kb1_39_l2norm": Rows(
        """
        squares = SUM(x * x)
        size = tl.sqrt(squares)
        out = x / size
        """
    ),
    "kb1_40_layernorm": Rows(
        NORM + "        out = (x - mean) * scale * ln_weight + ln_bias",
        {"ln_weight": "col", "ln_bias": "col"},
        cols="ln_weight.numel()",
    ),
    "kb1_47_sum_reduction_over_a_dimension": Rows("out = SUM(x)", **MIDDLE),
    "kb1_48_mean_reduction_over_a_dimension": Rows("total = SUM(x)\nout = total / cols", **MIDDLE),
    "kb1_49_max_reduction_over_a_dimension": Rows("out = MAX(x)", **MIDDLE),
    "kb1_51_argmax_over_a_dimension": Rows("largest = MAX(x)\nout = FIRST(x == largest)", **MIDDLE),
    "kb1_52_argmin_over_a_dimension": Rows("least = MIN(x)\nout = FIRST(x == least)", **MIDDLE),
    "kb1_53_min_reduction_over_a_dimension": Rows("out = MIN(x)", **MIDDLE),
    "kb1_4_matrix_vector_multiplication": Rows("out = SUM(A * B)", {"B": "col", "out": "row"}),
    "kb1_89_cumsum": Scan("out = SUM(x)"),
    "kb1_90_cumprod": Scan("out = PRODUCT(x)"),
    "kb1_91_cumsum_reverse": Scan(
        "out = SUM(x)",
        {"x": "row * cols + cols - 1 - col", "out": "row * cols + cols - 1 - col"},
    ),
    "kb1_93_masked_cumsum": Scan("out = SUM(tl.where(mask, x, 0.0))"),
}

TOTALS: dict[str, Template] = {
    "kb1_94_mseloss": Total(
        "total = SUM((predictions - targets) * (predictions - targets))\nout = total / count"
    ),
    "kb1_96_huberloss": Total(
        """
        total = SUM(smooth(predictions - targets))
        out = total / count
        """
    ),
    "kb1_98_kldivloss": Total(
        """
        total = SUM(tl.where(targets > 0, targets * (tl.log(targets) - tl.log(predictions)), 0.0))
        out = total / batch
        """,
        sizes={"batch": "predictions.shape[0]"},
    ),
    "kb1_100_hingeloss": Total(
        "total = SUM(tl.maximum(1 - predictions * targets, 0.0))\nout = total / count",
        {"targets": "place % cols"},
        {"cols": "targets.shape[0]"},
    ),
}

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


def depthwise(height: int, width: int, weight: str = "conv2d_weight") -> Template:
    """Return a depthwise convolution with filters of this size, without padding."""
    return Flat(
        COORDINATES
        + f"""\
        out = tl.zeros((BLOCK,), tl.float32)
        for u in range({height}):
            for v in range({width}):
                w = tl.load({weight}_ptr + (plane % channels * {height} + u) * {width} + v, inside)
                at = (plane * height + r + u) * width + c + v
                out += w * tl.load(x_ptr + at, inside, 0.0)
""",
        sizes={**PLANE, "channels": "x.shape[1]"},
    )


WINDOWS: dict[str, Template] = {
    "kb1_41_max_pooling_1d": Flat(
        """
        t = place % out_time
        line = place // out_time
        out = tl.full((BLOCK,), float("-inf"), tl.float32)
        for u in range(8):
            s = t + 3 * u - 4
            known = inside & (s >= 0) & (s < time)
            out = tl.maximum(out, tl.load(x_ptr + line * time + s, known, float("-inf")))
        """,
        sizes={"time": "x.shape[2]", "out_time": "out.shape[2]"},
    ),
    "kb1_42_max_pooling_2d": Flat(
        COORDINATES
        + """\
        out = tl.full((BLOCK,), float("-inf"), tl.float32)
        for u in range(4):
            for v in range(4):
                y = r + u - 1
                z = c + v - 1
                known = inside & (y >= 0) & (y < height) & (z >= 0) & (z < width)
                at = (plane * height + y) * width + z
                out = tl.maximum(out, tl.load(x_ptr + at, known, float("-inf")))
""",
        sizes=PLANE,
    ),
    "kb1_44_average_pooling_1d": Flat(
        """
        t = place % out_time
        line = place // out_time
        total = tl.zeros((BLOCK,), tl.float32)
        for u in range(8):
            s = t + u - 4
            total += tl.load(x_ptr + line * time + s, inside & (s >= 0) & (s < time), 0.0)
        out = total / 8
        """,
        sizes={"time": "x.shape[2]", "out_time": "out.shape[2]"},
    ),
    "kb1_45_average_pooling_2d": Flat(
        COORDINATES
        + """\
        total = tl.zeros((BLOCK,), tl.float32)
        for u in range(11):
            for v in range(11):
                at = (plane * height + r * 11 + u) * width + c * 11 + v
                total += tl.load(x_ptr + at, inside, 0.0)
        out = total / 121
""",
        sizes=PLANE,
    ),
    "kb1_82_conv_depthwise_2d_square_input_square_kernel": depthwise(3, 3),
    "kb1_83_conv_depthwise_2d_square_input_asymmetric_kernel": depthwise(3, 1),
    "kb1_85_conv_depthwise_2d_asymmetric_input_asymmetric_kernel": depthwise(3, 7),
}

PLAIN = {"a": "A", "b": "B", "m": "A.shape[-2]", "n": "B.shape[-1]", "k": "A.shape[-1]"}
FLAT = {**PLAIN, "m": "A.numel() // A.shape[-1]"}
TRIANGLE = "out = tl.where({}, total, 0.0)"


def gemm(lines: str, name: str, more: dict[str, str] | None = None) -> Template:
    """Return a linear layer `{total}` of a weight and a bias of this name, and what follows."""
    lines = lines.format(total=f"(total + {name}_bias)")
    return linear(lines, {f"{name}_bias": "j", **(more or {})}, f"{name}_weight")


PRODUCTS: dict[str, Template] = {
    "kb1_1_square_matrix_multiplication": Product("out = total", **PLAIN),
    "kb1_2_standard_matrix_multiplication": Product("out = total", **PLAIN),
    "kb1_3_batched_matrix_multiplication": Product("out = total", **PLAIN, batch="A.shape[0]"),
    "kb1_6_matmul_with_large_k_dimension": Product("out = total", **PLAIN),
    "kb1_7_matmul_with_small_k_dimension": Product("out = total", **PLAIN),
    "kb1_8_matmul_with_irregular_shapes": Product("out = total", **PLAIN),
    "kb1_9_tall_skinny_matrix_multiplication": Product("out = total", **PLAIN),
    "kb1_10_3d_tensor_matrix_multiplication": Product("out = total", **FLAT),
    "kb1_11_4d_tensor_matrix_multiplication": Product("out = total", **FLAT),
    "kb1_13_matmul_for_symmetric_matrices": Product("out = total", **PLAIN),
    "kb1_14_matmul_for_upper_triangular_matrices": Product(TRIANGLE.format("j >= i"), **PLAIN),
    "kb1_15_matmul_for_lower_triangular_matrices": Product(TRIANGLE.format("j <= i"), **PLAIN),
    "kb1_16_matmul_with_transposed_a": Product(
        "out = total", {"A": "l * m + i"}, **{**PLAIN, "m": "A.shape[1]", "k": "A.shape[0]"}
    ),
    "kb1_17_matmul_with_transposed_b": Product(
        "out = total", {"B": "j * k + l"}, **{**PLAIN, "n": "B.shape[0]"}
    ),
    "kb1_18_matmul_with_transposed_both": Product(
        "out = total",
        {"A": "l * m + i", "B": "j * k + l"},
        **{**PLAIN, "m": "A.shape[1]", "n": "B.shape[0]", "k": "A.shape[0]"},
    ),
    "kb1_87_conv_pointwise_2d": Product(
        "out = total",
        {"conv1d_weight": "i * k + l"},
        a="conv1d_weight",
        b="x",
        m="conv1d_weight.shape[0]",
        n="x.shape[2] * x.shape[3]",
        k="x.shape[1]",
        batch="x.shape[0]",
    ),
    "kb2_12_gemm_multiply_leakyrelu": gemm(
        "y = {total} * 2.0\nout = tl.where(y > 0, y, 0.1 * y)", "gemm"
    ),
    "kb2_9_matmul_subtract_multiply_relu": gemm(
        "out = tl.maximum(({total} - 2.0) * 1.5, 0.0)", "linear"
    ),
    "kb2_29_matmul_mish_mish": gemm(
        f"""
        y = {{total}}
        e = tl.exp(tl.minimum(y, 20.0))
        y = {MISH.format("y")}
        e = tl.exp(tl.minimum(y, 20.0))
        out = {MISH.format("y")}
        """,
        "linear",
    ),
    "kb2_40_matmul_scaling_residualadd": gemm("y = {total}\nout = y * 0.5 + y", "matmul"),
    "kb2_53_gemm_scaling_hardtanh_gelu": gemm(
        "y = tl.minimum(tl.maximum({total} * 0.5, -2.0), 2.0)\n" + f"out = {GELU.format('y')}",
        "gemm",
    ),
    "kb2_59_matmul_swish_scaling": gemm("y = {total}\nout = y * sigmoid(y) * 2.0", "matmul"),
    "kb2_63_gemm_relu_divide": gemm("out = tl.maximum({total}, 0.0) / 2.0", "linear"),
    "kb2_70_gemm_sigmoid_scaling_residualadd": gemm(
        "y = {total}\nout = sigmoid(y) * 2.0 + y", "gemm"
    ),
    "kb2_76_gemm_add_relu": linear(
        "out = tl.maximum(total + bias, 0.0)", {"bias": "j"}, "gemm_weight"
    ),
    "kb2_81_gemm_swish_divide_clamp_tanh_clamp": gemm(
        "y = {total}\nout = tanh(tl.minimum(tl.maximum(y * sigmoid(y) / 2, -1.0), 1.0))", "gemm"
    ),
    "kb2_86_matmul_divide_gelu": gemm(
        "y = {total} / 10.0\n" + f"out = {GELU.format('y')}", "linear"
    ),
    "kb2_95_matmul_add_swish_tanh_gelu_hardtanh": gemm(
        f"""
        y = {{total}} + add_value
        y = tanh(y * sigmoid(y))
        out = tl.minimum(tl.maximum({GELU.format("y")}, -1.0), 1.0)
        """,
        "matmul",
        {"add_value": "j"},
    ),
}

KERNELBENCH: dict[str, Template] = {**ELEMENTS, **ROWS, **TOTALS, **WINDOWS, **PRODUCTS}
"""Templates by the name of the imported task."""
