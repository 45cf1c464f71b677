"""Adam with AMSGrad, one program per block of parameters."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def adam_amsgrad_kernel(
    param_ptr,
    grad_ptr,
    m_ptr,
    v_ptr,
    v_max_ptr,
    new_param_ptr,
    new_m_ptr,
    new_v_ptr,
    new_v_max_ptr,
    count,
    lr,
    penalty,
    m_weight,
    v_weight,
    m_correction,
    v_correction,
    eps,
    BLOCK: tl.constexpr,
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    param = tl.load(param_ptr + offsets, mask, other=0.0)
    grad = tl.load(grad_ptr + offsets, mask, other=0.0).to(tl.float32) + penalty * param
    m = tl.load(m_ptr + offsets, mask, other=0.0)
    m += m_weight * (grad - m)
    v = tl.load(v_ptr + offsets, mask, other=0.0)
    v += v_weight * (grad * grad - v)
    v_max = tl.maximum(tl.load(v_max_ptr + offsets, mask, other=0.0), v)
    change = m / m_correction / (tl.sqrt(v_max / v_correction) + eps)
    tl.store(new_param_ptr + offsets, param - lr * change, mask)
    tl.store(new_m_ptr + offsets, m, mask)
    tl.store(new_v_ptr + offsets, v, mask)
    tl.store(new_v_max_ptr + offsets, v_max, mask)


def adam_amsgrad(
    param,
    grad,
    m,
    v,
    v_max,
    new_param,
    new_m,
    new_v,
    new_v_max,
    lr,
    penalty,
    m_weight,
    v_weight,
    m_correction,
    v_correction,
    eps,
):
    count = new_param.numel()
    adam_amsgrad_kernel[(triton.cdiv(count, BLOCK),)](
        param,
        grad,
        m,
        v,
        v_max,
        new_param,
        new_m,
        new_v,
        new_v_max,
        count,
        lr,
        penalty,
        m_weight,
        v_weight,
        m_correction,
        v_correction,
        eps,
        BLOCK=BLOCK,
        num_warps=WARPS,
    )
