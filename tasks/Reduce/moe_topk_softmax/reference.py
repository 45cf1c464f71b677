"""Routing of tokens to experts: softmax over the experts, then the top k of each token.

As in Mixtral (Jiang et al., 2024) and Qwen3; whether weights are renormalised differs by model.
"""

import torch


def reference(logits, top_k, renormalise):
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    # A stable sort: of equal logits, the expert with the lower index comes first.
    best, indices = torch.sort(wide, dim=-1, descending=True, stable=True)
    weights = torch.softmax(best, dim=-1)[..., :top_k]
    if renormalise:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights, indices[..., :top_k].to(torch.int32)


def magnitude(logits, top_k, renormalise):
    # The rounding of a logit, or of its distance from the largest, is an error of its exponential.
    best = torch.sort(logits, dim=-1, descending=True).values
    share = torch.softmax(best, dim=-1)
    size = best.abs()
    weighed = (share * size).sum(dim=-1, keepdim=True) + size[..., :1]
    weights = reference(logits, top_k, renormalise)[0]
    size = (1 + size + weighed)[..., :top_k]
    return weights * size, torch.zeros_like(weights)


def reduction(case):
    return case["experts"]


def inputs(case, draw):
    return {"logits": draw.normal((case["tokens"], case["experts"]))}


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    tokens, experts = case["tokens"], case["experts"]
    return tokens * (experts * item + case["top_k"] * (4 + 4)), 4 * tokens * experts
