"""Covariance update of a Kalman filter, one program per filter, whose matrices fit in a tile."""

import triton
import triton.language as tl

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def covariance_update_kernel(
    transition_ptr, covariance_ptr, noise_ptr, out_ptr, size, SIDE: tl.constexpr
):
    row = tl.arange(0, SIDE)[:, None]
    col = tl.arange(0, SIDE)[None, :]
    mask = (row < size) & (col < size)
    offsets = tl.program_id(0).to(tl.int64) * size * size + row * size + col
    transition = tl.load(transition_ptr + offsets, mask, other=0.0)
    covariance = tl.load(covariance_ptr + offsets, mask, other=0.0)
    noise = tl.load(noise_ptr + offsets, mask, other=0.0)
    moved = tl.dot(transition, covariance, input_precision="ieee")
    moved = tl.dot(moved, tl.trans(transition), input_precision="ieee")
    tl.store(out_ptr + offsets, moved + noise, mask)


def covariance_update(transition, covariance, noise, out):
    batch, size, _ = out.shape
    side = max(16, triton.next_power_of_2(size))
    covariance_update_kernel[(batch,)](
        transition, covariance, noise, out, size, SIDE=side, num_warps=WARPS
    )
