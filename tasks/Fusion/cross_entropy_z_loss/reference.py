"""Return the cross entropy of every token with the z-loss that keeps its logits from drifting.

    lse[t]    = log(sum over v of exp(logits[t, v]))
    z_loss[t] = z_weight * lse[t]^2
    loss[t]   = lse[t] - logits[t, targets[t]] + z_loss[t]

`targets` lie between 0 and vocab - 1. Both results are float32, whatever the dtype of `logits`,
and so are all sums. Large logits must not overflow: the largest of a row is subtracted before the
exponential. No tensor of `vocab` columns has to be written.
"""

import torch


def reference(logits, targets, z_weight):
    wide = logits.float()
    lse = torch.logsumexp(wide, dim=-1)
    z_loss = z_weight * lse.square()
    return lse - wide.gather(-1, targets[:, None])[:, 0] + z_loss, z_loss
