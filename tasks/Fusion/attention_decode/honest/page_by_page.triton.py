# honest: without matrix products, a program for a head of a sequence, page by page
import triton
import triton.language as tl


@triton.jit
def decode_kernel(
    q,
    k_cache,
    v_cache,
    block_tables,
    lengths,
    out,
    kv_heads,
    group,
    pages,
    DIM: tl.constexpr,
    PAGE: tl.constexpr,
):
    sequence, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    dims, slot = tl.arange(0, DIM), tl.arange(0, PAGE)
    row = (sequence * kv_heads * group + head) * DIM + dims
    query = tl.load(q + row).to(tl.float32) / tl.sqrt(DIM * 1.0)
    length = tl.load(lengths + sequence)

    shift = -1e30
    total = 0.0
    sums = tl.zeros((DIM,), tl.float32)
    for first in range(tl.cdiv(length, PAGE)):
        page = tl.load(block_tables + sequence * pages + first).to(tl.int64)
        at = ((page * PAGE + slot) * kv_heads + head // group)[:, None] * DIM + dims[None, :]
        valid = first * PAGE + slot < length
        key = tl.load(k_cache + at, valid[:, None], other=0.0).to(tl.float32)
        value = tl.load(v_cache + at, valid[:, None], other=0.0).to(tl.float32)
        scores = tl.where(valid, tl.sum(key * query[None, :], axis=1), -1e30)
        top = tl.maximum(shift, tl.max(scores, axis=0))
        powers = tl.where(valid, tl.exp(scores - top), 0.0)
        keep = tl.exp(shift - top)
        total = total * keep + tl.sum(powers, axis=0)
        sums = sums * keep + tl.sum(powers[:, None] * value, axis=0)
        shift = top
    tl.store(out + row, sums / total)


def attention_decode(q, k_cache, v_cache, block_tables, lengths, out):
    sequences, heads, dim = q.shape
    kv_heads = k_cache.shape[2]
    decode_kernel[(sequences, heads)](
        q,
        k_cache,
        v_cache,
        block_tables,
        lengths,
        out,
        kv_heads,
        heads // kv_heads,
        block_tables.shape[1],
        DIM=dim,
        PAGE=k_cache.shape[1],
    )
