"""A step of decoding: a query of each sequence attends to a paged cache (Kwon et al., 2023)."""

import torch

_WEIGHT_OF_SCORES = 1 / 8
_LEAST = 2.0**-14


def reference(q, k_cache, v_cache, block_tables, lengths):
    sequences, heads, head_dim = q.shape
    k, v = _gathered(k_cache, block_tables), _gathered(v_cache, block_tables)
    seen = torch.arange(k.shape[2], device=q.device) < lengths[:, None]
    # The queries that share a head of keys are as many positions of one head.
    out = torch.nn.functional.scaled_dot_product_attention(
        q.reshape(sequences, k.shape[1], -1, head_dim), k, v, attn_mask=seen[:, None, None]
    )
    return out.reshape(sequences, heads, head_dim)


def _gathered(cache, block_tables):
    """The keys or values of every sequence: [sequences, kv_heads, pages*page_size, head_dim]."""
    return cache[block_tables.long()].flatten(1, 2).transpose(1, 2)


def magnitude(q, k_cache, v_cache, block_tables, lengths):
    # A probability may be rounded to the dtype of the case before it weighs a value (in float16 to
    # no finer than 2^-25), which `c2` counts; an error of its score counts an eighth of that.
    sequences, heads, head_dim = q.shape
    k, v = _gathered(k_cache, block_tables), _gathered(v_cache, block_tables)
    q = q.reshape(sequences, k.shape[1], -1, head_dim) / head_dim**0.5
    seen = (torch.arange(k.shape[2], device=q.device) < lengths[:, None])[:, None, None]
    k = k.transpose(-1, -2)
    p = torch.softmax((q @ k).masked_fill(~seen, float("-inf")), dim=-1)
    spread = (q.square() @ k.square()).sqrt()
    weights = p * (1 + spread * _WEIGHT_OF_SCORES) + seen * _LEAST
    out = weights @ v.abs() + weights.sum(dim=-1, keepdim=True) * (p @ v).abs()
    return out.reshape(sequences, heads, head_dim)


def reduction(case):
    return case["head_dim"]


def inputs(case, draw):
    sequences, pages, kv_heads = case["sequences"], case["pages"], case["kv_heads"]
    capacity = pages * case["page_size"]
    cache = (sequences * pages, case["page_size"], kv_heads, case["head_dim"])
    # Pages are handed out as sequences grow, so those of one lie anywhere.
    places = draw.uniform((sequences * pages,), 0, 1).argsort()
    return {
        "q": draw.normal((sequences, kv_heads * case["group"], case["head_dim"])),
        "k_cache": draw.normal(cache),
        "v_cache": draw.normal(cache),
        "block_tables": places.view(sequences, pages),
        "lengths": draw.integers((sequences,), max(1, capacity // 4), capacity + 1),
    }


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    sequences, pages, kv_heads = case["sequences"], case["pages"], case["kv_heads"]
    heads, head_dim = kv_heads * case["group"], case["head_dim"]
    # Lengths are even between a quarter of the capacity and all of it.
    capacity = pages * case["page_size"]
    tokens = sequences * (max(1, capacity // 4) + capacity) // 2
    moved = 2 * (tokens * kv_heads + sequences * heads) * head_dim * item
    return moved + 4 * (sequences * pages + sequences), 4 * heads * tokens * head_dim
