# honest: maximum and sum in one loop, the sum rescaled whenever the maximum grows
import triton
import triton.language as tl

BLOCK = 2048


@triton.jit
def cross_entropy_kernel(logits, targets, out, vocab, ignore_index, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    row = logits + token * vocab
    target = tl.load(targets + token)
    if target == ignore_index:
        tl.store(out + token, 0.0)
    else:
        chosen = tl.load(row + target).to(tl.float32)
        shift = chosen
        total = 0.0
        for first in range(0, vocab, BLOCK):
            offsets = first + tl.arange(0, BLOCK)
            values = tl.load(row + offsets, offsets < vocab, other=float("-inf")).to(tl.float32)
            top = tl.maximum(shift, tl.max(values, axis=0))
            total = total * tl.exp(shift - top) + tl.sum(tl.exp(values - top), axis=0)
            shift = top
        tl.store(out + token, tl.log(total) + shift - chosen)


def cross_entropy(logits, targets, out, ignore_index):
    tokens, vocab = logits.shape
    cross_entropy_kernel[(tokens,)](logits, targets, out, vocab, ignore_index, BLOCK=BLOCK)
