# mutant: returns the probability of the target, not its loss
# expect: WRONG_VALUES
import torch


def cross_entropy(logits, targets, ignore_index):
    share = torch.softmax(logits.float(), dim=-1)
    chosen = share.gather(-1, targets.clamp(min=0)[:, None])[:, 0]
    return chosen.masked_fill(targets == ignore_index, 0.0)
