"""Cross entropy, a tile of tokens a program: largest logit and sum of exponentials in one loop."""

import triton
import triton.language as tl

# Logits a program holds at a time: tokens of few classes share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8

# Blocks of a row in flight.
# arena: tune STAGES 1 2 3 4
STAGES = 2


@triton.jit
def cross_entropy_kernel(
    logits,
    targets,
    out,
    tokens,
    vocab,
    ignore_index,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    STAGES: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)
    inside = token < tokens
    # Behind the last token a program repeats that token, and stores nothing.
    row = logits + tl.minimum(token, tokens - 1) * vocab
    offsets = tl.arange(0, WIDTH)[None, :]

    shift = tl.full((HEIGHT,), float("-inf"), tl.float32)
    sums = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in tl.range(0, vocab, WIDTH, num_stages=STAGES):
        col = first + offsets
        values = tl.load(row[:, None] + col, col < vocab, other=float("-inf")).to(tl.float32)
        top = tl.maximum(shift, tl.max(values, axis=1))
        sums = sums * tl.exp(shift - top)[:, None] + tl.exp(values - top[:, None])
        shift = top

    target = tl.load(targets + token, inside, other=ignore_index)
    ignored = target == ignore_index
    chosen = tl.load(row + tl.where(ignored, 0, target)).to(tl.float32)
    loss = tl.log(tl.sum(sums, axis=1)) + (shift - chosen)
    tl.store(out + token, tl.where(ignored, 0.0, loss), inside)


def cross_entropy(logits, targets, out, ignore_index):
    tokens, vocab = logits.shape
    width = min(TILE, triton.next_power_of_2(vocab))
    height = TILE // width
    cross_entropy_kernel[(triton.cdiv(tokens, height),)](
        logits,
        targets,
        out,
        tokens,
        vocab,
        ignore_index,
        HEIGHT=height,
        WIDTH=width,
        STAGES=STAGES,
        num_warps=WARPS,
    )
