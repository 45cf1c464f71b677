"""Clipped policy loss with a penalty on the distance to a reference model: GRPO.

    ratio = exp(log_probs[s, t] - old_log_probs[s, t])
    gain  = min(ratio * advantage[s], clamp(ratio, 1 - clip, 1 + clip) * advantage[s])
    d     = reference_log_probs[s, t] - log_probs[s, t]
    each  = beta * (exp(d) - d - 1) - gain
    loss[s] = (sum of each over t with mask[s, t]) / max(number of t with mask[s, t], 1)

Compute in float32 or better. `exp(d) - 1` is to be computed as `expm1` does, because `d` is small.
Source: Shao et al., "DeepSeekMath", 2024.
"""

import torch


def reference(log_probs, old_log_probs, reference_log_probs, advantage, mask, clip, beta):
    ratio = torch.exp(log_probs - old_log_probs)
    gain = advantage[..., None]
    gain = torch.minimum(ratio * gain, ratio.clamp(1 - clip, 1 + clip) * gain)
    d = reference_log_probs - log_probs
    each = torch.where(mask, beta * (torch.expm1(d) - d) - gain, 0.0)
    return each.sum(dim=-1) / mask.sum(dim=-1).clamp(min=1)
