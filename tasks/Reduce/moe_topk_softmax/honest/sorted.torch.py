# honest: the top k of the logits as keys that hold their expert too, weights from log-probabilities
import torch


def moe_topk_softmax(logits, top_k, renormalise):
    bits = logits.float().add(0.0).view(torch.int32)
    order = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    expert = torch.arange(logits.shape[1], device=logits.device)
    keys = order * 1024 + (1023 - expert)
    indices = 1023 - keys.topk(top_k, dim=-1).values % 1024
    chosen = torch.log_softmax(logits.float(), dim=-1).gather(-1, indices)
    weights = torch.softmax(chosen, dim=-1) if renormalise else chosen.exp()
    return weights, indices.int()
