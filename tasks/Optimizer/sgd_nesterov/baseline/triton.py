"""SGD with Nesterov momentum, one program per block of parameters."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def sgd_nesterov_kernel(
    param_ptr,
    grad_ptr,
    velocity_ptr,
    new_param_ptr,
    new_velocity_ptr,
    count,
    lr,
    momentum,
    penalty,
    BLOCK: tl.constexpr,
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    param = tl.load(param_ptr + offsets, mask, other=0.0)
    grad = tl.load(grad_ptr + offsets, mask, other=0.0).to(tl.float32) + penalty * param
    velocity = momentum * tl.load(velocity_ptr + offsets, mask, other=0.0) + grad
    tl.store(new_param_ptr + offsets, param - lr * (grad + momentum * velocity), mask)
    tl.store(new_velocity_ptr + offsets, velocity, mask)


def sgd_nesterov(param, grad, velocity, new_param, new_velocity, lr, momentum, penalty):
    count = new_param.numel()
    sgd_nesterov_kernel[(triton.cdiv(count, BLOCK),)](
        param,
        grad,
        velocity,
        new_param,
        new_velocity,
        count,
        lr,
        momentum,
        penalty,
        BLOCK=BLOCK,
        num_warps=WARPS,
    )
