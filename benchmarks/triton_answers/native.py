"""Triton implementations of native operators, one each, as lines for a template."""

from __future__ import annotations

from benchmarks.triton_answers.templates import Flat, Product, Rows, Scan, Template, Total, Written

LAST = {"channels": "x.shape[-1]"}
"""The size of the last dimension, for a bias."""
CHANNELS = {"channels": "x.shape[1]", "pixels": "x.shape[2]"}
OF_CHANNEL = "place // pixels % channels"

ACTIVATIONS: dict[str, Template] = {
    "biased_leaky_relu": Flat(
        """
        y = x + bias
        out = gain * tl.where(y >= 0, y, slope * y)
        """,
        {"bias": OF_CHANNEL},
        CHANNELS,
    ),
    "clamped_swiglu": Flat(
        """
        gate = tl.minimum(tl.load(x_ptr + 2 * place, inside, 0).to(tl.float32), limit)
        value = tl.load(x_ptr + 2 * place + 1, inside, 0).to(tl.float32)
        value = tl.minimum(tl.maximum(value, -limit), limit)
        out = (value + 1) * gate * sigmoid(alpha * gate)
        """
    ),
    "geglu": Flat(
        """
        start = place // hidden * 2 * hidden + place % hidden
        value = tl.load(x_ptr + start, inside, 0).to(tl.float32)
        gate = tl.load(x_ptr + start + hidden, inside, 0).to(tl.float32)
        out = value * (0.5 * gate * (1 + tl.erf(gate * 0.7071067811865476)))
        """,
        sizes={"hidden": "out.shape[1]"},
    ),
    "gelu": Flat("out = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))"),
    "gelu_tanh": Flat(
        "out = 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))"
    ),
    "hardswish": Flat("out = x * tl.minimum(tl.maximum(x + 3, 0.0), 6.0) / 6"),
    "mish": Flat(
        """
        e = tl.exp(tl.minimum(x, 20.0))
        out = tl.where(x > 20, x, x * (e * (e + 2) / (e * (e + 2) + 2)))
        """
    ),
    "relu_squared": Flat("out = tl.maximum(x, 0.0) * tl.maximum(x, 0.0)"),
    "sigmoid_gate": Flat("out = x * sigmoid(gate)"),
    "silu": Flat("out = x * sigmoid(x)"),
    "snake": Flat(
        """
        wave = tl.sin(alpha * x)
        out = x + wave * wave / alpha
        """,
        {"alpha": OF_CHANNEL},
        CHANNELS,
    ),
    "softcap": Flat("out = cap * tanh(x / cap)"),
    "softplus_bias": Flat("out = softplus(x + bias)", {"bias": "place % channels"}, LAST),
    "wavenet_gate": Flat(
        """
        start = place // half * 2 * half + place % half
        a = tl.load(x_ptr + start, inside, 0).to(tl.float32)
        a += tl.load(condition_ptr + start, inside, 0).to(tl.float32)
        g = tl.load(x_ptr + start + half, inside, 0).to(tl.float32)
        g += tl.load(condition_ptr + start + half, inside, 0).to(tl.float32)
        out = tanh(a) * sigmoid(g)
        """,
        sizes={"half": "out.shape[1] * out.shape[2]"},
    ),
    "xielu": Flat(
        """
        below = alpha_n * (expm1(tl.minimum(x, 0.0)) - x)
        out = tl.where(x > 0, alpha_p * x * x, below) + beta * x
        """
    ),
}

OPTIMIZERS: dict[str, Template] = {
    "adam_amsgrad": Flat(
        """
        g = grad + penalty * param
        new_m = m + m_weight * (g - m)
        new_v = v + v_weight * (g * g - v)
        new_v_max = tl.maximum(v_max, new_v)
        change = (new_m / m_correction) / (tl.sqrt(new_v_max / v_correction) + eps)
        new_param = param - lr * change
        """
    ),
    "adamw": Flat(
        """
        new_m = m + m_weight * (grad - m)
        new_v = v + v_weight * (grad * grad - v)
        change = (new_m / m_correction) / (tl.sqrt(new_v / v_correction) + eps)
        new_param = param * (1 - lr * weight_decay) - lr * change
        """
    ),
    "lion": Flat(
        """
        c = m + sign_weight * (grad - m)
        change = tl.where(c > 0, 1.0, 0.0) - tl.where(c < 0, 1.0, 0.0)
        new_param = param * (1 - lr * weight_decay) - lr * change
        new_m = m + m_weight * (grad - m)
        """
    ),
    "rmsprop_centred": Flat(
        """
        new_square = square + weight * (grad * grad - square)
        new_average = average + weight * (grad - average)
        spread = tl.sqrt(new_square - new_average * new_average) + eps
        new_velocity = momentum * velocity + grad / spread
        new_param = param - lr * new_velocity
        """
    ),
    "sgd_nesterov": Flat(
        """
        g = grad + penalty * param
        new_velocity = momentum * velocity + g
        new_param = param - lr * (g + momentum * new_velocity)
        """
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
    "linear": Product(
        "out = total + bias",
        {"weight": "j * k + l", "bias": "j"},
        a="x",
        b="weight",
        m="x.shape[0]",
        n="weight.shape[0]",
        k="x.shape[1]",
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
    "linear_gelu": Product(
        """
        y = total + bias
        out = 0.5 * y * (1 + tanh(0.7978845608028654 * (y + 0.044715 * y * y * y)))
        """,
        {"weight": "j * k + l", "bias": "j"},
        a="x",
        b="weight",
        m="x.shape[0]",
        n="weight.shape[0]",
        k="x.shape[1]",
    ),
    "int8_static_matmul": Product(
        "out = total.to(tl.float32) * x_scales * scales + bias",
        {"weight": "j * k + l", "x_scales": "i", "scales": "j", "bias": "j"},
        a="x",
        b="weight",
        m="x.shape[0]",
        n="weight.shape[0]",
        k="x.shape[1]",
        whole=True,
    ),
    "matrix_vector": Rows("out = SUM(weight * x)", {"x": "col", "out": "row"}),
}

NORM = """
        total = SUM({0})
        mean = total / cols
        squares = SUM(({0} - mean) * ({0} - mean))
        scale = 1 / tl.sqrt(squares / cols + eps)
"""
GROUPS = {
    "rows": "x.shape[0] * groups",
    "cols": "x.shape[1] // groups * x.shape[2]",
    "sizes": {"width": "x.shape[1] // groups", "pixels": "x.shape[2]"},
    "at": {
        "weight": "row % groups * width + col // pixels",
        "bias": "row % groups * width + col // pixels",
    },
}

NORMS: dict[str, Template] = {
    "batch_norm": Rows(
        NORM.format("x") + "        out = (x - mean) * (scale * weight) + bias",
        {
            "x": "(col // pixels * rows + row) * pixels + col % pixels",
            "out": "(col // pixels * rows + row) * pixels + col % pixels",
            "weight": "row",
            "bias": "row",
        },
        {"pixels": "x.shape[2]"},
        rows="x.shape[1]",
        cols="x.shape[0] * x.shape[2]",
    ),
    "group_norm": Rows(
        NORM.format("x") + "        out = (x - mean) * scale * weight + bias", **GROUPS
    ),
    "l2_normalize": Rows(
        """
        squares = SUM(x * x)
        length = tl.maximum(tl.sqrt(squares), eps)
        out = x / length
        """
    ),
    "weight_demodulation": Rows(
        """
        w := weight * style
        squares = SUM(w * w)
        scale = 1 / tl.sqrt(squares + eps)
        out = w * scale
        """,
        {
            "weight": "row % filters * cols + col",
            "style": "row // filters * channels + col // taps",
        },
        {"filters": "weight.shape[0]", "channels": "weight.shape[1]", "taps": "weight.shape[2]"},
        rows="style.shape[0] * weight.shape[0]",
        cols="weight.shape[1] * weight.shape[2]",
    ),
    "add_rms_norm": Rows(
        """
        total := x + residual
        squares = SUM(total * total)
        scale = 1 / tl.sqrt(squares / cols + eps)
        out = total * scale * weight
        residual_out = total
        """,
        {"weight": "col"},
    ),
    "bias_residual_layer_norm": Rows(
        "        s := x + bias + residual"
        + NORM.format("s")
        + "        out = (s - mean) * scale * weight + beta",
        {"bias": "col", "weight": "col", "beta": "col"},
    ),
    "gated_rms_norm": Rows(
        """
        y := x * (gate * sigmoid(gate))
        squares = SUM(y * y)
        scale = 1 / tl.sqrt(squares / cols + eps)
        out = y * scale * weight
        """,
        {"weight": "row % groups * cols + col"},
        {"groups": "x.shape[1]"},
        rows="x.shape[0] * x.shape[1]",
        cols="x.shape[2]",
    ),
    "group_norm_silu": Rows(
        "        y := (x - mean) * scale * weight + bias"
        + NORM.format("x")
        + "        out = y * sigmoid(y)",
        **GROUPS,
    ),
    "layer_norm_modulate": Rows(
        "        modulation := scale"
        + NORM.format("x").replace("scale =", "spread =")
        + "        out = (x - mean) * spread * (1 + modulation) + shift",
        {"shift": "row // tokens * cols + col", "scale": "row // tokens * cols + col"},
        {"tokens": "x.shape[1]"},
        rows="x.shape[0] * x.shape[1]",
        cols="x.shape[2]",
    ),
}

REDUCTIONS: dict[str, Template] = {
    "argmax": Rows(
        """
        largest = MAX(x)
        out = FIRST(x == largest)
        """,
        {"out": "row"},
    ),
    "column_sum": Rows(
        "out = SUM(x)",
        {"x": "col * rows + row", "out": "row"},
        rows="x.shape[1]",
        cols="x.shape[0]",
        together=32,
    ),
    "gradient_norm": Total(
        """
        squares = SUM(gradient * gradient)
        norm = tl.sqrt(squares)
        factor = tl.minimum(max_norm / (norm + 1e-6), 1.0)
        """
    ),
    "logsumexp": Rows(
        """
        largest = MAX(x)
        total = SUM(tl.exp(x - largest))
        out = largest + tl.log(total)
        """,
        {"out": "row"},
    ),
    "masked_mean": Rows(
        """
        total = SUM(tl.where(mask, x, 0.0))
        kept = SUM(tl.where(mask, 1.0, 0.0))
        out = total / tl.maximum(kept, 1.0)
        """,
        {
            "x": "(row // channels * cols + col) * channels + row % channels",
            "mask": "row // channels * cols + col",
            "out": "row",
        },
        {"channels": "x.shape[2]"},
        rows="x.shape[0] * x.shape[2]",
        cols="x.shape[1]",
        together=32,
    ),
    "variance_and_mean": Rows(
        """
        total = SUM(x)
        mean = total / cols
        squares = SUM((x - mean) * (x - mean))
        variance = squares / cols
        """,
        {"mean": "row", "variance": "row"},
    ),
    "log_softmax": Rows(
        """
        largest = MAX(x)
        total = SUM(tl.exp(x - largest))
        out = x - largest - tl.log(total)
        """
    ),
    "masked_softmax": Rows(
        """
        score := tl.where(mask, float("-inf"), scores * scale)
        largest = MAX(score)
        largest = tl.where(largest == float("-inf"), 0.0, largest)
        total = SUM(tl.exp(score - largest))
        divisor = tl.where(total > 0, total, 1.0)
        out = tl.exp(score - largest) / divisor
        """,
        {"mask": "(row // queries // heads * queries + row % queries) * cols + col"},
        {"heads": "scores.shape[1]", "queries": "scores.shape[2]"},
        rows="scores.shape[0] * scores.shape[1] * scores.shape[2]",
        cols="scores.shape[3]",
    ),
    "cumsum": Scan("out = SUM(x)"),
}

LOSSES: dict[str, Template] = {
    "bce_with_logits": Total(
        """
        total = SUM(tl.where(target, positive_weight * softplus(-logits), softplus(logits)))
        loss = total / count
        """
    ),
    "dice_loss": Rows(
        """
        p := sigmoid(logits)
        both = SUM(tl.where(target, p, 0.0))
        all = SUM(p)
        hit = SUM(tl.where(target, 1.0, 0.0))
        loss = 1 - (2 * both + 1) / (all + hit + 1)
        """,
        {"loss": "row"},
    ),
    "focal_loss": Rows(
        """
        p := sigmoid(logits)
        q := sigmoid(-logits)
        positive := alpha * q * q * softplus(-logits)
        negative := (1 - alpha) * p * p * softplus(logits)
        loss = SUM(tl.where(col == label, positive, negative))
        """,
        {"label": "row", "loss": "row"},
    ),
    "grpo_loss": Rows(
        """
        ratio := tl.exp(log_probs - old_log_probs)
        clipped := tl.minimum(tl.maximum(ratio, 1 - clip), 1 + clip)
        gain := tl.minimum(ratio * advantage, clipped * advantage)
        d := (reference_log_probs - log_probs)
        each := beta * (expm1(d) - d) - gain
        total = SUM(tl.where(mask, each, 0.0))
        kept = SUM(tl.where(mask, 1.0, 0.0))
        loss = total / tl.maximum(kept, 1.0)
        """,
        {"advantage": "row", "loss": "row"},
    ),
    "kl_divergence": Rows(
        """
        s := student / temperature
        t := teacher / temperature
        most_s = MAX(s)
        most_t = MAX(t)
        sum_s = SUM(tl.exp(s - most_s))
        sum_t = SUM(tl.exp(t - most_t))
        log_s = tl.log(sum_s)
        log_t = tl.log(sum_t)
        log_p := t - most_t - log_t
        log_q := s - most_s - log_s
        loss = SUM(tl.exp(log_p) * (log_p - log_q))
        """,
        {"loss": "row"},
    ),
    "mse_loss": Total(
        """
        total = SUM((prediction - target) * (prediction - target))
        loss = total / count
        """
    ),
    "smooth_l1_loss": Rows(
        """
        d := tl.abs(prediction - target)
        loss = SUM(tl.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta))
        """,
        {"loss": "row"},
    ),
    "cross_entropy_z_loss": Rows(
        """
        largest = MAX(logits)
        total = SUM(tl.exp(logits - largest))
        of_target = SUM(tl.where(col == targets, logits, 0.0))
        lse = largest + tl.log(total)
        z_loss = z_weight * lse * lse
        loss = lse - of_target + z_loss
        """,
        {"targets": "row", "loss": "row", "z_loss": "row"},
    ),
}

ELEMENTS: dict[str, Template] = {
    "causal_conv1d_silu": Flat(
        """
        t = place % length
        channel = place // length % channels
        y = bias
        for tap in range(taps):
            s = t + tap - (taps - 1)
            w = tl.load(weight_ptr + channel * taps + tap, inside, 0).to(tl.float32)
            y += w * tl.load(x_ptr + place - t + s, inside & (s >= 0), 0).to(tl.float32)
        out = y * sigmoid(y)
        """,
        {"bias": "channel"},
        {"channels": "x.shape[1]", "length": "x.shape[2]", "taps": "weight.shape[1]"},
    ),
    "complex_multiply": Flat(
        """
        pair = place // 2 * 2
        other = pair % filter
        a = tl.load(x_ptr + pair, inside, 0).to(tl.float32)
        b = tl.load(x_ptr + pair + 1, inside, 0).to(tl.float32)
        c = tl.load(weight_ptr + other, inside, 0).to(tl.float32)
        d = tl.load(weight_ptr + other + 1, inside, 0).to(tl.float32)
        out = tl.where(place % 2 == 0, a * c - b * d, a * d + b * c)
        """,
        sizes={"filter": "weight.numel()"},
    ),
    "decay_gate": Flat(
        """
        decay = -tl.exp(a_log) * softplus(a + dt_bias)
        beta = sigmoid(b)
        """,
        {"a_log": "place % heads", "dt_bias": "place % heads"},
        {"heads": "a.shape[1]"},
    ),
    "merge_attention_states": Flat(
        """
        largest = tl.maximum(prefix_lse, suffix_lse)
        ours = tl.exp(prefix_lse - largest)
        theirs = tl.exp(suffix_lse - largest)
        out = (prefix * ours + suffix * theirs) / (ours + theirs)
        lse = largest + log1p(tl.minimum(ours, theirs))
        """,
        {"prefix_lse": "place // dim", "suffix_lse": "place // dim", "lse": "place // dim"},
        {"dim": "prefix.shape[2]"},
    ),
    "embedding": Flat(
        """
        at = ids * cols + place % cols
        out = tl.load(table_ptr + at, inside, 0)
        """,
        {"ids": "place // cols"},
        {"cols": "table.shape[1]"},
    ),
    "embedding_bag": Flat(
        """
        bag = place // cols
        total = tl.zeros((BLOCK,), tl.float32)
        for n in range(capacity):
            known = inside & (n < lengths)
            id = tl.load(ids_ptr + bag * capacity + n, known, 0)
            total += tl.load(table_ptr + id * cols + place % cols, known, 0).to(tl.float32)
        out = total / tl.maximum(lengths, 1).to(tl.float32)
        """,
        {"lengths": "place // cols"},
        {"cols": "table.shape[1]", "capacity": "ids.shape[1]"},
    ),
    "gather_columns": Flat(
        "out = tl.load(x_ptr + place // picks * cols + index, inside, 0)",
        sizes={"cols": "x.shape[1]", "picks": "index.shape[1]"},
    ),
    "one_hot": Flat(
        """
        hit = tl.where(labels == place % classes, 1 - smoothing, 0.0)
        out = tl.where(labels >= 0, hit + smoothing / classes, 0.0)
        """,
        {"labels": "place // classes"},
    ),
    "page_gather": Flat(
        """
        t = place // width % tokens
        sequence = place // width // tokens
        page = tl.load(page_table_ptr + sequence * pages + t // page_size, inside, 0)
        at = (page * page_size + t % page_size) * width + place % width
        out = tl.load(cache_ptr + at, inside & (t < lengths), 0)
        """,
        {"lengths": "sequence"},
        {
            "width": "cache.shape[2]",
            "page_size": "cache.shape[1]",
            "pages": "page_table.shape[1]",
            "tokens": "page_table.shape[1] * cache.shape[1]",
        },
    ),
    "window_partition": Flat(
        """
        d = place % channels
        v = place // channels % window
        u = place // channels // window % window
        c = place // channels // window // window % grid_cols
        r = place // channels // window // window // grid_cols
        image = r // grid_rows
        y = ((r % grid_rows) * window + u + shift) % (grid_rows * window)
        z = (c * window + v + shift) % (grid_cols * window)
        at = ((image * grid_rows * window + y) * grid_cols * window + z) * channels + d
        out = tl.load(x_ptr + at, inside, 0)
        """,
        sizes={
            "channels": "x.shape[3]",
            "grid_rows": "x.shape[1] // window",
            "grid_cols": "x.shape[2] // window",
        },
    ),
    "dequantize_int4": Flat(
        """
        byte = tl.load(packed_ptr + place // 2, inside, 0).to(tl.int32)
        q = tl.where(place % 2 == 0, byte & 15, byte >> 4)
        out = (q - zeros.to(tl.int32)).to(tl.float32) * scales
        """,
        {"scales": "place // group", "zeros": "place // group"},
        {"group": "out.shape[1] // scales.shape[1]"},
    ),
    "quantize_rows_int8": Rows(
        """
        largest = MAX(tl.abs(x))
        scale = tl.div_rn(tl.maximum(largest, 1e-12), 127.0)
        exact := tl.div_rn(x, scale + tl.zeros_like(x))
        near := tl.floor(exact + 0.5)
        odd := (near - 2 * tl.floor(near * 0.5)) != 0
        q = tl.where((near - exact == 0.5) & odd, near - 1, near).to(tl.int8)
        """,
        {"scale": "row"},
    ),
    "dropout": Flat(
        "out = tl.where(tl.rand(seed, place.to(tl.int32)) >= p, x / (1 - p), 0.0)",
        {"seed": "place * 0"},
    ),
    "bilinear_resize": Flat(
        """
        c = place % out_width
        r = place // out_width % out_height
        plane = place // out_width // out_height
        v = (r.to(tl.float32) + 0.5) * (height / out_height) - 0.5
        u = (c.to(tl.float32) + 0.5) * (width / out_width) - 0.5
        v = tl.maximum(v, 0.0)
        u = tl.maximum(u, 0.0)
        top = tl.minimum(tl.floor(v).to(tl.int64), height - 1)
        left = tl.minimum(tl.floor(u).to(tl.int64), width - 1)
        bottom = tl.minimum(top + 1, height - 1)
        right = tl.minimum(left + 1, width - 1)
        f = v - top.to(tl.float32)
        g = u - left.to(tl.float32)
        first = plane * height
        p = tl.load(x_ptr + (first + top) * width + left, inside, 0).to(tl.float32)
        q = tl.load(x_ptr + (first + top) * width + right, inside, 0).to(tl.float32)
        s = tl.load(x_ptr + (first + bottom) * width + left, inside, 0).to(tl.float32)
        t = tl.load(x_ptr + (first + bottom) * width + right, inside, 0).to(tl.float32)
        out = (1 - f) * ((1 - g) * p + g * q) + f * ((1 - g) * s + g * t)
        """,
        sizes={"height": "x.shape[1]", "width": "x.shape[2]"},
    ),
    "fpn_merge": Flat(
        """
        c = place % width
        r = place // width % height
        plane = place // width // height
        out = fine + coarse
        """,
        {"coarse": "(plane * (height // 2) + r // 2) * (width // 2) + c // 2"},
        {"height": "fine.shape[1]", "width": "fine.shape[2]"},
    ),
    "pixel_shuffle": Flat(
        """
        c = place % (width * factor)
        r = place // (width * factor) % (height * factor)
        channel = place // (width * factor) // (height * factor)
        plane = (channel * factor + r % factor) * factor + c % factor
        out = tl.load(x_ptr + (plane * height + r // factor) * width + c // factor, inside, 0)
        """,
        sizes={"height": "x.shape[2]", "width": "x.shape[3]"},
    ),
}

ALGEBRA: dict[str, Template] = {
    "covariance_update": Written(
        """
        @triton.jit(do_not_specialize=["size"])
        def compute(f_ptr, p_ptr, q_ptr, out_ptr, size, SIDE: tl.constexpr):
            i = tl.arange(0, SIDE)[:, None]
            j = tl.arange(0, SIDE)[None, :]
            inside = (i < size) & (j < size)
            at = tl.program_id(0).to(tl.int64) * size * size + i * size + j
            f = tl.load(f_ptr + at, inside, 0.0)
            p = tl.load(p_ptr + at, inside, 0.0)
            moved = tl.dot(f, p, input_precision="ieee")
            found = tl.dot(moved, tl.trans(f), input_precision="ieee")
            tl.store(out_ptr + at, found + tl.load(q_ptr + at, inside, 0.0), inside)


        def covariance_update(transition, covariance, noise, out):
            size = out.shape[1]
            side = max(16, triton.next_power_of_2(size))
            compute[(out.shape[0],)](transition, covariance, noise, out, size, SIDE=side)
        """
    ),
    "unit_lower_solve": Written(
        """
        @triton.jit(do_not_specialize=["size", "cols"])
        def compute(a_ptr, b_ptr, x_ptr, size, cols, SIDE: tl.constexpr, COLS: tl.constexpr):
            i = tl.arange(0, SIDE)
            j = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
            n = tl.program_id(0).to(tl.int64)
            inside = (i[:, None] < size) & (j < cols)
            at = (n * size + i[:, None]) * cols + j
            x = tl.load(b_ptr + at, inside, 0.0)
            for row in range(1, size):
                a = tl.load(a_ptr + (n * size + row) * size + i, i < row, 0.0)
                known = tl.sum(a[:, None] * x, 0)[None, :]
                x = tl.where(i[:, None] == row, x - known, x)
            tl.store(x_ptr + at, x, inside)


        def unit_lower_solve(a, b, x):
            batch, size, cols = b.shape
            blocks = (batch, triton.cdiv(cols, 32))
            compute[blocks](a, b, x, size, cols, SIDE=triton.next_power_of_2(size), COLS=32)
        """
    ),
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
