"""Sigmoid gate, one program per block of elements."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def sigmoid_gate_kernel(x_ptr, gate_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    x = tl.load(x_ptr + offsets, mask, other=0.0).to(tl.float32)
    gate = tl.load(gate_ptr + offsets, mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, x * tl.sigmoid(gate), mask)


def sigmoid_gate(x, gate, out):
    count = out.numel()
    sigmoid_gate_kernel[(triton.cdiv(count, BLOCK),)](
        x, gate, out, count, BLOCK=BLOCK, num_warps=WARPS
    )
