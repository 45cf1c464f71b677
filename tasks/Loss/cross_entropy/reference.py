"""Cross entropy of each token against its target class; ignored tokens have loss 0."""

import torch


def reference(logits, targets, ignore_index):
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return torch.nn.functional.cross_entropy(
        wide, targets, reduction="none", ignore_index=int(ignore_index)
    )


def magnitude(logits, targets, ignore_index):
    # log(sum(exp(x - max))) + max - x[target]: roundings of the logits under the exponential weigh
    # as its probabilities do, those of the maximum and of the target's logit count once.
    size = logits.abs()
    weighed = (torch.softmax(logits, dim=-1) * size).sum(dim=-1)
    chosen = size.gather(-1, targets.clamp(min=0)[:, None])[:, 0]
    return (1 + weighed + size.amax(dim=-1) + chosen) * (targets != ignore_index)


def reduction(case):
    return case["vocab"]


def inputs(case, draw):
    tokens, vocab = case["tokens"], case["vocab"]
    targets = draw.integers((tokens,), 0, vocab)
    ignored = draw.uniform((tokens,), 0, 1) < 0.1
    return {
        "logits": draw.normal((tokens, vocab)),
        "targets": targets.masked_fill(ignored, case["ignore_index"]),
    }


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    tokens, vocab = case["tokens"], case["vocab"]
    return tokens * vocab * item + tokens * (8 + 4), 4 * tokens * vocab
