"""Triton implementations of native operators that reduce rows or whole tensors."""

from __future__ import annotations

from benchmarks.triton_answers.templates import Rows, Scan, Template, Total, Written

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
