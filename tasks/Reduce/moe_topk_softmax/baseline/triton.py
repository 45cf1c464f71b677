"""Top-k softmax router: a tile of whole rows a program, searched for its maximum top_k times."""

import triton
import triton.language as tl

# Logits a program holds at a time.
# arena: tune TILE 512 1024 2048 4096
TILE = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def router_kernel(
    logits,
    weights,
    indices,
    tokens,
    experts,
    top_k,
    renormalise,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    CHOSEN: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    expert = tl.arange(0, WIDTH)
    place = tl.arange(0, CHOSEN)
    mask = (row < tokens)[:, None] & (expert < experts)[None, :]
    left = tl.load(logits + row[:, None] * experts + expert[None, :], mask, other=float("-inf")).to(
        tl.float32
    )
    left = tl.where((row < tokens)[:, None], left, 0.0)

    largest = tl.max(left, axis=1)
    total = tl.sum(tl.exp(left - largest[:, None]), axis=1)
    powers = tl.zeros((ROWS, CHOSEN), tl.float32)
    chosen = tl.zeros((ROWS, CHOSEN), tl.int32)
    for i in range(top_k):
        best = tl.max(left, axis=1)
        # The lowest of the experts that share the largest logit.
        winner = tl.min(tl.where(left == best[:, None], expert[None, :], WIDTH), axis=1)
        here = (place == i)[None, :]
        powers = tl.where(here, tl.exp(best - largest)[:, None], powers)
        chosen = tl.where(here, winner[:, None], chosen)
        left = tl.where(expert[None, :] == winner[:, None], float("-inf"), left)

    if renormalise:
        total = tl.sum(powers, axis=1)
    out = row[:, None] * top_k + place[None, :]
    inside = (row < tokens)[:, None] & (place < top_k)[None, :]
    tl.store(weights + out, powers / total[:, None], inside)
    tl.store(indices + out, chosen, inside)


def moe_topk_softmax(logits, weights, indices, top_k, renormalise):
    tokens, experts = logits.shape
    width = triton.next_power_of_2(experts)
    rows = max(1, TILE // width)
    router_kernel[(triton.cdiv(tokens, rows),)](
        logits,
        weights,
        indices,
        tokens,
        experts,
        top_k,
        renormalise,
        ROWS=rows,
        WIDTH=width,
        CHOSEN=triton.next_power_of_2(top_k),
        num_warps=WARPS,
    )
