# honest: a product in parts, added by atomics to a workspace that is zeroed each time
# operator: product
import torch
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["rows", "inner", "cols"])
def multiply(x, weight, sums, rows, inner, cols, SIDE: tl.constexpr, DEEP: tl.constexpr):
    i = tl.program_id(0) * SIDE + tl.arange(0, SIDE)[:, None]
    j = tl.program_id(1) * SIDE + tl.arange(0, SIDE)[None, :]
    k = tl.program_id(2) * DEEP + tl.arange(0, DEEP)
    a = tl.load(x + i * inner + k[None, :], (i < rows) & (k[None, :] < inner), 0.0)
    b = tl.load(weight + k[:, None] * cols + j, (k[:, None] < inner) & (j < cols), 0.0)
    part = tl.dot(a, b, input_precision="ieee")
    tl.atomic_add(sums + i * cols + j, part, (i < rows) & (j < cols))


@triton.jit(do_not_specialize=["elements"])
def narrow(sums, out, elements, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(sums + places, places < elements)
    tl.store(out + places, values.to(out.dtype.element_ty), places < elements)


def product(x, weight, out):
    (rows, inner), cols = x.shape, weight.shape[1]
    sums = torch.zeros(out.shape, device=out.device, dtype=torch.float32)
    grid = (triton.cdiv(rows, 32), triton.cdiv(cols, 32), triton.cdiv(inner, 64))
    multiply[grid](x, weight, sums, rows, inner, cols, SIDE=32, DEEP=64)
    narrow[(triton.cdiv(out.numel(), 512),)](sums, out, out.numel(), BLOCK=512)
