"""Make one step of AdamW (Loshchilov and Hutter, 2019) on a flat parameter:

    new_m = m + m_weight * (grad - m)
    new_v = v + v_weight * (grad^2 - v)
    d = (new_m / m_correction) / (sqrt(new_v / v_correction) + eps)
    new_param = param * (1 - lr * weight_decay) - lr * d

`m_weight` is 1 - beta_1, `v_weight` is 1 - beta_2, and the corrections are 1 - beta^step. `grad`
has the dtype of the case; all else is float32, and so is the arithmetic. The results are new
tensors: the inputs must not be changed.
"""

import torch


def reference(
    param, grad, m, v, lr, weight_decay, m_weight, v_weight, m_correction, v_correction, eps
):
    grad = grad.float()
    new_m = m + m_weight * (grad - m)
    new_v = v + v_weight * (grad.square() - v)
    change = (new_m / m_correction) / (torch.sqrt(new_v / v_correction) + eps)
    return param * (1 - lr * weight_decay) - lr * change, new_m, new_v
