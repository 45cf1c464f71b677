"""Complex products, one program per block of real and imaginary parts."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def complex_multiply_kernel(x_ptr, weight_ptr, out_ptr, count, weight_count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    real = offsets // 2 * 2
    weight_real = real % weight_count
    a = tl.load(x_ptr + real, mask, other=0.0).to(tl.float32)
    b = tl.load(x_ptr + real + 1, mask, other=0.0).to(tl.float32)
    c = tl.load(weight_ptr + weight_real, mask, other=0.0).to(tl.float32)
    d = tl.load(weight_ptr + weight_real + 1, mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, tl.where(offsets % 2 == 0, a * c - b * d, a * d + b * c), mask)


def complex_multiply(x, weight, out):
    count = out.numel()
    weight_count = weight.numel()
    complex_multiply_kernel[(triton.cdiv(count, BLOCK),)](
        x, weight, out, count, weight_count, BLOCK=BLOCK, num_warps=WARPS
    )
