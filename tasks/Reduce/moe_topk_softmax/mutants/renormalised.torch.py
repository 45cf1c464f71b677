# mutant: renormalises whether asked to or not
# expect: WRONG_VALUES
import torch


def moe_topk_softmax(logits, top_k, renormalise):
    best, indices = torch.sort(logits.float(), dim=-1, descending=True, stable=True)
    return torch.softmax(best[:, :top_k], dim=-1), indices[:, :top_k].int()
