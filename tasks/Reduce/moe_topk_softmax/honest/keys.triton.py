# honest: logits and experts packed into integer keys, so that one maximum finds both
import triton
import triton.language as tl

ROWS = 16


@triton.jit
def keys_kernel(
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
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    row = tl.minimum(row, tokens - 1)  # Programs past the end repeat the last token.
    expert = tl.arange(0, WIDTH)[None, :]
    inside = expert < experts
    values = tl.load(logits + row * experts + expert, inside, other=float("-inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=1)[:, None])

    # Order of floats as order of integers; -0 counts as 0.
    bits = (values + 0.0).to(tl.int32, bitcast=True)
    order = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64)
    keys = tl.where(inside, order * 1024 + (1023 - expert), -(2**62))
    place = tl.arange(0, CHOSEN)[None, :]
    winners = tl.zeros((ROWS, CHOSEN), tl.int32)
    shares = tl.zeros((ROWS, CHOSEN), tl.float32)
    for i in range(top_k):
        winner = 1023 - (tl.max(keys, axis=1) & 1023).to(tl.int32)[:, None]
        share = tl.sum(tl.where(expert == winner, powers, 0.0), axis=1)[:, None]
        winners = tl.where(place == i, winner, winners)
        shares = tl.where(place == i, share, shares)
        keys = tl.where(expert == winner, -(2**62), keys)

    total = tl.where(renormalise != 0, tl.sum(shares, axis=1), tl.sum(powers, axis=1))
    tl.store(weights + row * top_k + place, shares * (1 / total)[:, None], place < top_k)
    tl.store(indices + row * top_k + place, winners, place < top_k)


def moe_topk_softmax(logits, weights, indices, top_k, renormalise):
    tokens, experts = logits.shape
    keys_kernel[(triton.cdiv(tokens, ROWS),)](
        logits,
        weights,
        indices,
        tokens,
        experts,
        top_k,
        renormalise,
        ROWS=ROWS,
        WIDTH=triton.next_power_of_2(experts),
        CHOSEN=triton.next_power_of_2(top_k),
    )
