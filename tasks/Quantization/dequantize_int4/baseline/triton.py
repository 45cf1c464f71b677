"""Dequantisation of packed 4-bit weights by groups, one program per block of results."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def dequantize_int4_kernel(
    packed_ptr, scales_ptr, zeros_ptr, out_ptr, count, group, BLOCK: tl.constexpr
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    byte = tl.load(packed_ptr + offsets // 2, mask, other=0).to(tl.int32)
    q = tl.where(offsets % 2 == 0, byte & 15, byte >> 4)
    scale = tl.load(scales_ptr + offsets // group, mask, other=0.0).to(tl.float32)
    zero = tl.load(zeros_ptr + offsets // group, mask, other=0).to(tl.int32)
    tl.store(out_ptr + offsets, (q - zero).to(tl.float32) * scale, mask)


def dequantize_int4(packed, scales, zeros, out):
    count = out.numel()
    group = out.shape[1] // scales.shape[1]
    dequantize_int4_kernel[(triton.cdiv(count, BLOCK),)](
        packed, scales, zeros, out, count, group, BLOCK=BLOCK, num_warps=WARPS
    )
