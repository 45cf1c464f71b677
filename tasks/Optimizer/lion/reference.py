"""Make one step of Lion (Chen et al., 2023) on a flat parameter:

    d = sign(m + sign_weight * (grad - m))
    new_param = param * (1 - lr * weight_decay) - lr * d
    new_m = m + m_weight * (grad - m)

`sign_weight` is 1 - beta_1 and `m_weight` is 1 - beta_2; sign(0) is 0. `grad` has the dtype of the
case; all else is float32, and so is the arithmetic. Where the argument of the sign is within four
float32 roundings of zero, any sign passes. The results are new tensors: the inputs must not be
changed.
"""

import torch


def reference(param, grad, m, lr, weight_decay, sign_weight, m_weight):
    grad = grad.to(m.dtype)
    change = torch.sign(m + sign_weight * (grad - m))
    return param * (1 - lr * weight_decay) - lr * change, m + m_weight * (grad - m)


def magnitude(param, grad, m, lr, weight_decay, sign_weight, m_weight):
    # The argument of the sign is known to four roundings; its whole change is allowed below that.
    size = m.abs() + sign_weight * (grad.abs() + m.abs())
    near = (m + sign_weight * (grad - m)).abs() <= size * 2.0**-22
    param_size = param.abs() + lr + near * (2 * lr * 2.0**24)
    return param_size, m.abs() + m_weight * (grad.abs() + m.abs())


def reduction(case):
    return 1
