"""Add up the outputs of each token's experts, by the router's weights, and of the shared expert:

    out[t, c] = shared[t, c] + sum over i of weights[t, i] * expert_out[rows[t, i], c]

`expert_out` holds `tokens*top_k` rows, sorted by expert and not by token. `rows[t, i]` is the row
of the i-th expert of token t; a row may be named more than once, and some are never. `weights` are
float32. Sums are float32 or better, and rounded once.
"""


def reference(expert_out, rows, weights, shared):
    chosen = expert_out[rows].float()
    total = shared.float() + (chosen * weights[..., None]).sum(dim=1)
    return total.to(shared.dtype)


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    tokens, cols, slots = case["tokens"], case["cols"], case["slots"]
    named = slots * (1 - (1 - 1 / slots) ** slots)  # rows that are named at least once, on average
    moved = (named + 2 * tokens) * cols * item + 12 * slots
    return int(moved), 2 * slots * cols
