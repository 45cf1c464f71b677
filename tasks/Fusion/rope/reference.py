"""Rotary position embedding (Su et al., 2021) of queries and keys, heads split into two halves."""

import torch

_BASE = 10_000.0


def reference(q, k, cos, sin):
    return _rotate(q, cos, sin), _rotate(k, cos, sin)


def _rotate(x, cos, sin):
    wide = torch.promote_types(x.dtype, torch.float32)
    first, second = x.to(wide).chunk(2, dim=-1)
    cos, sin = cos.to(wide)[:, None, :], sin.to(wide)[:, None, :]
    rotated = (first * cos - second * sin, second * cos + first * sin)
    return torch.cat(rotated, dim=-1).to(x.dtype)


def magnitude(q, k, cos, sin):
    return _spread(q.abs(), cos.abs(), sin.abs()), _spread(k.abs(), cos.abs(), sin.abs())


def _spread(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos[:, None, :], sin[:, None, :]
    return torch.cat((first * cos + second * sin, second * cos + first * sin), dim=-1)


def reduction(case):
    return 2


def inputs(case, draw):
    tokens, half_dim = case["tokens"], case["half_dim"]
    # Consecutive positions from a drawn start, as in the middle of a sequence.
    start = draw.integers((1,), 0, 8192)
    positions = start + torch.arange(tokens, device=start.device)
    frequencies = _BASE ** (-torch.arange(half_dim, device=start.device) / half_dim)
    angles = positions[:, None] * frequencies
    return {
        "q": draw.normal((tokens, case["heads"], 2 * half_dim)),
        "k": draw.normal((tokens, case["kv_heads"], 2 * half_dim)),
        "cos": angles.cos(),
        "sin": angles.sin(),
    }


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    pairs = case["tokens"] * (case["heads"] + case["kv_heads"]) * case["half_dim"]
    return (4 * pairs + 2 * case["tokens"] * case["half_dim"]) * item, 6 * pairs
