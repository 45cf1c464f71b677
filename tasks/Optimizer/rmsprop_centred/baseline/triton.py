"""Centred RMSprop, one program per block of parameters."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def rmsprop_centred_kernel(
    param_ptr,
    grad_ptr,
    square_ptr,
    average_ptr,
    velocity_ptr,
    new_param_ptr,
    new_square_ptr,
    new_average_ptr,
    new_velocity_ptr,
    count,
    lr,
    weight,
    momentum,
    eps,
    BLOCK: tl.constexpr,
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    param = tl.load(param_ptr + offsets, mask, other=0.0)
    grad = tl.load(grad_ptr + offsets, mask, other=0.0).to(tl.float32)
    square = tl.load(square_ptr + offsets, mask, other=0.0)
    square += weight * (grad * grad - square)
    average = tl.load(average_ptr + offsets, mask, other=0.0)
    average += weight * (grad - average)
    deviation = tl.sqrt(square - average * average) + eps
    velocity = tl.load(velocity_ptr + offsets, mask, other=0.0)
    velocity = momentum * velocity + grad / deviation
    tl.store(new_param_ptr + offsets, param - lr * velocity, mask)
    tl.store(new_square_ptr + offsets, square, mask)
    tl.store(new_average_ptr + offsets, average, mask)
    tl.store(new_velocity_ptr + offsets, velocity, mask)


def rmsprop_centred(
    param,
    grad,
    square,
    average,
    velocity,
    new_param,
    new_square,
    new_average,
    new_velocity,
    lr,
    weight,
    momentum,
    eps,
):
    count = new_param.numel()
    rmsprop_centred_kernel[(triton.cdiv(count, BLOCK),)](
        param,
        grad,
        square,
        average,
        velocity,
        new_param,
        new_square,
        new_average,
        new_velocity,
        count,
        lr,
        weight,
        momentum,
        eps,
        BLOCK=BLOCK,
        num_warps=WARPS,
    )
