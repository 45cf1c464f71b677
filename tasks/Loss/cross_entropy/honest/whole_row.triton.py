# honest: a whole row of logits at once, base-2 exponential and logarithm
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(logits, targets, out, vocab, ignore_index, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < vocab
    values = tl.load(logits + token * vocab + offsets, mask, other=float("-inf")).to(tl.float32)
    target = tl.load(targets + token)
    below = values - tl.max(values, axis=0)
    total = tl.sum(tl.exp2(below * 1.4426950408889634), axis=0)
    chosen = tl.sum(tl.where(offsets == target, below, 0.0), axis=0)
    loss = tl.log2(total) * 0.6931471805599453 - chosen
    tl.store(out + token, tl.where(target == ignore_index, 0.0, loss))


def cross_entropy(logits, targets, out, ignore_index):
    tokens, vocab = logits.shape
    block = triton.next_power_of_2(vocab)
    warps = min(32, max(1, block // 512))
    cross_entropy_kernel[(tokens,)](
        logits, targets, out, vocab, ignore_index, BLOCK=block, num_warps=warps
    )
