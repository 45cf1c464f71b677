# mutant: counts the positions of queries from the first key, not from the first of their chunk
# expect: WRONG_VALUES
import torch


def attention(q, k, v):
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return out[0].transpose(0, 1)
