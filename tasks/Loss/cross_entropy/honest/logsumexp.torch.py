# honest: logsumexp less the logit of the target, in float32
import torch


def cross_entropy(logits, targets, ignore_index):
    wide = logits.float()
    chosen = wide.gather(-1, targets.clamp(min=0)[:, None])[:, 0]
    loss = torch.logsumexp(wide, dim=-1) - chosen
    return loss.masked_fill(targets == ignore_index, 0.0)
