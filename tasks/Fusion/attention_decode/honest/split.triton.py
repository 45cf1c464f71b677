# honest: the tokens of a sequence split among programs, whose parts a second kernel puts together
import torch
import triton
import triton.language as tl

BLOCK = 32


@triton.jit
def part_kernel(
    q,
    k_cache,
    v_cache,
    block_tables,
    lengths,
    parts,
    bounds,
    kv_heads,
    group,
    pages,
    page_size,
    size,
    scale,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    sequence, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    dims, member = tl.arange(0, DIM), tl.arange(0, GROUP)
    row = (sequence.to(tl.int64) * kv_heads + kv_head) * group + member
    inside = member < group
    query = tl.load(q + row[:, None] * DIM + dims[None, :], inside[:, None], other=0.0)
    end = tl.minimum(tl.load(lengths + sequence), (split + 1) * size)

    shift = tl.full((GROUP,), -1e30, tl.float32)
    total = tl.zeros((GROUP,), tl.float32)
    sums = tl.zeros((GROUP, DIM), tl.float32)
    for begin in range(split * size, end, BLOCK):
        token = begin + tl.arange(0, BLOCK)
        valid = token < end
        page = tl.load(block_tables + sequence * pages + token // page_size, valid, other=0)
        slot = page.to(tl.int64) * page_size + token % page_size
        at = (slot * kv_heads + kv_head)[:, None] * DIM + dims[None, :]
        key = tl.load(k_cache + at, valid[:, None], other=0.0)
        scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
        top = tl.maximum(shift, tl.max(tl.where(valid[None, :], scores, -1e30), axis=1))
        powers = tl.where(valid[None, :], tl.exp(scores - top[:, None]), 0.0)
        keep = tl.exp(shift - top)
        total = total * keep + tl.sum(powers, axis=1)
        value = tl.load(v_cache + at, valid[:, None], other=0.0)
        sums = sums * keep[:, None]
        sums += tl.dot(powers.to(value.dtype), value, input_precision="ieee")
        shift = top

    row = row * tl.num_programs(2) + split
    tl.store(parts + row[:, None] * DIM + dims[None, :], sums, inside[:, None])
    tl.store(bounds + row * 2, shift, inside)
    tl.store(bounds + row * 2 + 1, total, inside)


@triton.jit
def merge_kernel(parts, bounds, out, splits, SPLITS: tl.constexpr, DIM: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    split, dims = tl.arange(0, SPLITS), tl.arange(0, DIM)
    valid = split < splits
    at = row * splits + split
    shift = tl.load(bounds + at * 2, valid, other=-1e30)
    weight = tl.exp(shift - tl.max(shift, axis=0))
    total = tl.sum(weight * tl.load(bounds + at * 2 + 1, valid, other=0.0), axis=0)
    sums = tl.load(parts + at[:, None] * DIM + dims[None, :], valid[:, None], other=0.0)
    tl.store(out + row * DIM + dims, tl.sum(sums * weight[:, None], axis=0) / total)


def attention_decode(q, k_cache, v_cache, block_tables, lengths, out):
    sequences, heads, dim = q.shape
    page_size, kv_heads = k_cache.shape[1], k_cache.shape[2]
    pages = block_tables.shape[1]
    group, splits = heads // kv_heads, min(8, pages)
    parts = torch.empty((sequences * heads * splits, dim), dtype=torch.float32, device=q.device)
    bounds = torch.empty((sequences * heads * splits, 2), dtype=torch.float32, device=q.device)
    part_kernel[(sequences, kv_heads, splits)](
        q,
        k_cache,
        v_cache,
        block_tables,
        lengths,
        parts,
        bounds,
        kv_heads,
        group,
        pages,
        page_size,
        triton.cdiv(pages * page_size, splits),
        1 / dim**0.5,
        GROUP=max(16, triton.next_power_of_2(group)),
        DIM=dim,
        BLOCK=BLOCK,
        num_stages=2,
    )
    merge_kernel[(sequences * heads,)](
        parts, bounds, out, splits, SPLITS=triton.next_power_of_2(splits), DIM=dim
    )
