"""WaveNet gate, one program per block of results."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def expm1(x):
    # A series where exp(x) - 1 cancels.
    series = x * (1 / 3628800) + 1 / 362880
    series = series * x + 1 / 40320
    series = series * x + 1 / 5040
    series = series * x + 1 / 720
    series = series * x + 1 / 120
    series = series * x + 1 / 24
    series = series * x + 1 / 6
    series = series * x + 0.5
    return tl.where(tl.abs(x) < 1, series * x * x + x, tl.exp(x) - 1)


@triton.jit
def tanh(x):
    size = tl.abs(x)
    small = expm1(2 * tl.minimum(size, 0.5))
    result = tl.where(size < 0.5, small / (small + 2), 1 - 2 / (tl.exp(2 * size) + 1))
    return tl.where(x < 0, -result, result)


@triton.jit
def wavenet_gate_kernel(x_ptr, condition_ptr, out_ptr, count, half, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    # A sequence is half signals, half gates.
    start = offsets // half * 2 * half + offsets % half
    signal = tl.load(x_ptr + start, mask, other=0.0).to(tl.float32)
    signal += tl.load(condition_ptr + start, mask, other=0.0).to(tl.float32)
    gate = tl.load(x_ptr + start + half, mask, other=0.0).to(tl.float32)
    gate += tl.load(condition_ptr + start + half, mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, tanh(signal) * tl.sigmoid(gate), mask)


def wavenet_gate(x, condition, out):
    count = out.numel()
    half = out.shape[1] * out.shape[2]
    wavenet_gate_kernel[(triton.cdiv(count, BLOCK),)](
        x, condition, out, count, half, BLOCK=BLOCK, num_warps=WARPS
    )
