# honest: all scores at once in float32, their powers rounded to the dtype of the values
import torch


def attention(q, k, v):
    tokens, heads, head_dim = q.shape
    group = heads // k.shape[1]
    wide_k, wide_v = (x.float().repeat_interleave(group, dim=1).transpose(0, 1) for x in (k, v))
    scores = q.float().transpose(0, 1) @ wide_k.transpose(1, 2) / head_dim**0.5
    seen = torch.ones(tokens, k.shape[0], dtype=torch.bool, device=q.device)
    scores = scores.masked_fill(~seen.tril(k.shape[0] - tokens), float("-inf"))
    powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    out = powers.to(v.dtype).float() @ wide_v / powers.sum(dim=-1, keepdim=True)
    return out.transpose(0, 1).to(q.dtype)
