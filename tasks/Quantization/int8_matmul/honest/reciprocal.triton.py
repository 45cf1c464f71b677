# honest: multiplies by 127 over the largest; products of whole numbers without tensor cores
import torch
import triton
import triton.language as tl

STRETCH = 512
TILE_N = 32


@triton.jit
def quantise_kernel(x, whole, row_scales, k, STRETCH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, STRETCH)
    largest = 0.0
    for first in range(0, k, STRETCH):
        values = tl.load(x + row * k + first + offsets, first + offsets < k, other=0.0)
        largest = tl.maximum(largest, tl.max(tl.abs(values.to(tl.float32))))
    tl.store(row_scales + row, largest / 127.0)
    inverse = 127.0 / tl.where(largest > 0, largest, 1.0)
    for first in range(0, k, STRETCH):
        mask = first + offsets < k
        values = tl.load(x + row * k + first + offsets, mask, other=0.0).to(tl.float32)
        # Halves away from zero: ties may go either way.
        rounded = tl.floor(tl.abs(values) * inverse + 0.5)
        signed = tl.where(values < 0, -rounded, rounded)
        tl.store(whole + row * k + first + offsets, signed.to(tl.int8), mask)


@triton.jit
def product_kernel(
    whole, row_scales, weight, scales, out, n, k, TILE_N: tl.constexpr, STRETCH: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1).to(tl.int64) * TILE_N + tl.arange(0, TILE_N)
    offsets = tl.arange(0, STRETCH)
    sums = tl.zeros((TILE_N,), tl.int32)
    for first in range(0, k, STRETCH):
        deep = first + offsets < k
        a = tl.load(whole + row * k + first + offsets, deep, other=0).to(tl.int32)
        mask = (cols < n)[:, None] & deep[None, :]
        places = cols[:, None] * k + first + offsets[None, :]
        sums += tl.sum(tl.load(weight + places, mask, other=0).to(tl.int32) * a[None, :], axis=1)
    scale = tl.load(row_scales + row) * tl.load(scales + cols, cols < n, other=0.0)
    tl.store(out + row * n + cols, sums.to(tl.float32) * scale, cols < n)


def int8_matmul(x, weight, scales, out):
    (m, k), n = x.shape, weight.shape[0]
    whole = torch.empty((m, k), dtype=torch.int8, device=x.device)
    row_scales = torch.empty((m,), dtype=torch.float32, device=x.device)
    quantise_kernel[(m,)](x, whole, row_scales, k, STRETCH=STRETCH)
    product_kernel[(m, triton.cdiv(n, TILE_N))](
        whole, row_scales, weight, scales, out, n, k, TILE_N=TILE_N, STRETCH=STRETCH
    )
