# honest: no search: an expert's place is the number of experts that come before it
import triton
import triton.language as tl

BLOCK = 128


@triton.jit
def ranks_kernel(
    logits,
    weights,
    indices,
    experts,
    top_k,
    renormalise,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    expert = tl.arange(0, WIDTH)
    values = tl.load(logits + row * experts + expert, expert < experts, other=float("-inf")).to(
        tl.float32
    )

    ranks = tl.zeros((WIDTH,), tl.int32)
    for first in range(0, experts, BLOCK):
        other = first + tl.arange(0, BLOCK)
        others = tl.load(logits + row * experts + other, other < experts, other=float("-inf")).to(
            tl.float32
        )
        equal = (others[:, None] == values[None, :]) & (other[:, None] < expert[None, :])
        before = (others[:, None] > values[None, :]) | equal
        ranks += tl.sum(before.to(tl.int32), axis=0)

    chosen = (expert < experts) & (ranks < top_k)
    powers = tl.exp2((values - tl.max(values, axis=0)) * 1.4426950408889634)
    counted = tl.where((renormalise == 0) | chosen, powers, 0.0)
    tl.store(weights + row * top_k + ranks, powers / tl.sum(counted, axis=0), chosen)
    tl.store(indices + row * top_k + ranks, expert, chosen)


def moe_topk_softmax(logits, weights, indices, top_k, renormalise):
    tokens, experts = logits.shape
    width = triton.next_power_of_2(experts)
    ranks_kernel[(tokens,)](
        logits, weights, indices, experts, top_k, renormalise, WIDTH=width, BLOCK=BLOCK
    )
