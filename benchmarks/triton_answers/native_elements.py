"""Triton implementations of native operators that compute each element by itself."""

from __future__ import annotations

from benchmarks.triton_answers.templates import Flat, Rows, Template

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
