# honest: the slot of every token in the flattened cache, powers rounded to the dtype of the values
import torch


def attention_decode(q, k_cache, v_cache, block_tables, lengths):
    sequences, _, head_dim = q.shape
    page_size, kv_heads = k_cache.shape[1], k_cache.shape[2]
    token = torch.arange(block_tables.shape[1] * page_size, device=q.device)
    slots = block_tables.long()[:, token // page_size] * page_size + token % page_size
    k = k_cache.view(-1, kv_heads, head_dim)[slots].float()
    v = v_cache.view(-1, kv_heads, head_dim)[slots].float()
    query = q.float().view(sequences, kv_heads, -1, head_dim)
    scores = torch.einsum("shgd,slhd->shgl", query, k) / head_dim**0.5
    unseen = token >= lengths[:, None]
    scores = scores.masked_fill(unseen[:, None, None], float("-inf"))
    powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    out = torch.einsum("shgl,slhd->shgd", powers.to(q.dtype).float(), v)
    return (out / powers.sum(dim=-1, keepdim=True)).reshape(q.shape).to(q.dtype)
