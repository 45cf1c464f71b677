# mutant: counts whatever the last page of a sequence holds
# expect: WRONG_VALUES
import torch


def attention_decode(q, k_cache, v_cache, block_tables, lengths):
    sequences, heads, head_dim = q.shape
    page_size = k_cache.shape[1]
    k, v = (
        cache[block_tables.long()].flatten(1, 2).transpose(1, 2) for cache in (k_cache, v_cache)
    )
    page = torch.arange(k.shape[2], device=q.device) // page_size
    seen = page * page_size < lengths[:, None]
    out = torch.nn.functional.scaled_dot_product_attention(
        q.view(sequences, k.shape[1], -1, head_dim), k, v, attn_mask=seen[:, None, None]
    )
    return out.reshape(sequences, heads, head_dim)
