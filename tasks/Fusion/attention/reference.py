"""Causal attention with grouped queries (Ainslie et al., 2023), as in the prefill of a decoder."""

import torch
from torch.nn.attention.bias import causal_lower_right

_WEIGHT_OF_SCORES = 1 / 8
_LEAST = 2.0**-14


def reference(q, k, v):
    kv_heads = k.shape[1]
    if q.dtype != torch.float64:
        return _attend(q, k, v)
    # No fused kernel computes in float64: a head at a time, so that all its scores fit.
    group = q.shape[1] // kv_heads
    heads = zip(q.split(group, dim=1), k.split(1, dim=1), v.split(1, dim=1), strict=True)
    return torch.cat([_attend(*head) for head in heads], dim=1)


def _attend(q, k, v):
    out = torch.nn.functional.scaled_dot_product_attention(
        *(x.transpose(0, 1)[None] for x in (q, k, v)),
        attn_mask=causal_lower_right(q.shape[0], k.shape[0]),
        enable_gqa=True,
    )
    return out[0].transpose(0, 1)


def magnitude(q, k, v):
    # A probability may be rounded to the dtype of the case before it weighs a value (in float16 to
    # no finer than 2^-25), which `c2` counts; an error of its score counts an eighth of that.
    group = q.shape[1] // k.shape[1]
    heads = zip(q.split(group, dim=1), k.unbind(dim=1), v.unbind(dim=1), strict=True)
    return torch.cat([_magnitude_of_head(*head) for head in heads], dim=1)


def _magnitude_of_head(q, k, v):
    tokens, _, head_dim = q.shape
    q, k = q.transpose(0, 1) / head_dim**0.5, k.T
    keys = torch.arange(k.shape[1], device=q.device)
    seen = keys[-tokens:, None] >= keys
    p = torch.softmax((q @ k).masked_fill(~seen, float("-inf")), dim=-1)
    spread = (q.square() @ k.square()).sqrt()
    weights = p * (1 + spread * _WEIGHT_OF_SCORES) + seen * _LEAST
    out = weights @ v.abs() + weights.sum(dim=-1, keepdim=True) * (p @ v).abs()
    return out.transpose(0, 1)


def reduction(case):
    return case["head_dim"]


def inputs(case, draw):
    tokens, kv_heads, head_dim = case["tokens"], case["kv_heads"], case["head_dim"]
    context = case["chunks"] * tokens
    return {
        "q": draw.normal((tokens, kv_heads * case["group"], head_dim)),
        "k": draw.normal((context, kv_heads, head_dim)),
        "v": draw.normal((context, kv_heads, head_dim)),
    }


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    tokens, kv_heads, head_dim = case["tokens"], case["kv_heads"], case["head_dim"]
    heads, context = kv_heads * case["group"], case["chunks"] * tokens
    seen = tokens * (context - tokens) + tokens * (tokens + 1) // 2
    moved = 2 * (tokens * heads + context * kv_heads) * head_dim * item
    return moved, 4 * heads * seen * head_dim
