# honest: the largest logit in one loop, the sum of exponentials in another
import triton
import triton.language as tl

BLOCK = 512

WARPS = 4


@triton.jit
def cross_entropy_kernel(logits, targets, out, vocab, ignore_index, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    row = logits + token * vocab
    target = tl.load(targets + token)
    ignored = target == ignore_index
    offsets = tl.arange(0, BLOCK)

    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for first in range(0, vocab, BLOCK):
        values = tl.load(row + first + offsets, first + offsets < vocab, other=float("-inf"))
        best = tl.maximum(best, values.to(tl.float32))
    shift = tl.max(best, axis=0)

    sums = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, vocab, BLOCK):
        values = tl.load(row + first + offsets, first + offsets < vocab, other=float("-inf"))
        sums += tl.exp(values.to(tl.float32) - shift)

    chosen = tl.load(row + tl.where(ignored, 0, target)).to(tl.float32)
    loss = tl.log(tl.sum(sums, axis=0)) + (shift - chosen)
    tl.store(out + token, tl.where(ignored, 0.0, loss))


def cross_entropy(logits, targets, out, ignore_index):
    tokens, vocab = logits.shape
    cross_entropy_kernel[(tokens,)](
        logits, targets, out, vocab, ignore_index, BLOCK=BLOCK, num_warps=WARPS
    )
