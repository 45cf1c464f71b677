"""Snake, one program per block of elements."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def snake_kernel(x_ptr, alpha_ptr, out_ptr, count, channels, time, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    x = tl.load(x_ptr + offsets, mask, other=0.0).to(tl.float32)
    alpha = tl.load(alpha_ptr + offsets // time % channels, mask, other=0.0).to(tl.float32)
    wave = tl.sin(alpha * x)
    tl.store(out_ptr + offsets, x + wave * wave / alpha, mask)


def snake(x, alpha, out):
    count = out.numel()
    channels, time = x.shape[1:]
    snake_kernel[(triton.cdiv(count, BLOCK),)](
        x, alpha, out, count, channels, time, BLOCK=BLOCK, num_warps=WARPS
    )
