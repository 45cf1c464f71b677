"""Lion, one program per block of parameters."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def lion_kernel(
    param_ptr,
    grad_ptr,
    m_ptr,
    new_param_ptr,
    new_m_ptr,
    count,
    lr,
    weight_decay,
    sign_weight,
    m_weight,
    BLOCK: tl.constexpr,
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    param = tl.load(param_ptr + offsets, mask, other=0.0)
    grad = tl.load(grad_ptr + offsets, mask, other=0.0).to(tl.float32)
    m = tl.load(m_ptr + offsets, mask, other=0.0)
    direction = m + sign_weight * (grad - m)
    sign = tl.where(direction > 0, 1.0, 0.0) - tl.where(direction < 0, 1.0, 0.0)
    tl.store(new_param_ptr + offsets, param * (1 - lr * weight_decay) - lr * sign, mask)
    tl.store(new_m_ptr + offsets, m + m_weight * (grad - m), mask)


def lion(param, grad, m, new_param, new_m, lr, weight_decay, sign_weight, m_weight):
    count = new_param.numel()
    lion_kernel[(triton.cdiv(count, BLOCK),)](
        param,
        grad,
        m,
        new_param,
        new_m,
        count,
        lr,
        weight_decay,
        sign_weight,
        m_weight,
        BLOCK=BLOCK,
        num_warps=WARPS,
    )
