"""Make one step of Adam (Kingma and Ba, 2015) with AMSGrad (Reddi et al., 2018) on a flat
parameter:

    g = grad + penalty * param
    new_m = m + m_weight * (g - m)
    new_v = v + v_weight * (g^2 - v)
    new_v_max = max(v_max, new_v)
    new_param = param - lr * (new_m / m_correction) / (sqrt(new_v_max / v_correction) + eps)

`m_weight` is 1 - beta_1, `v_weight` is 1 - beta_2, and the corrections are 1 - beta^step. The
penalty enters both moments, unlike AdamW's decay. `grad` has the dtype of the case; all else is
float32, and so is the arithmetic. The results are new tensors: the inputs must not be changed.
"""

import torch


def reference(
    param, grad, m, v, v_max, lr, penalty, m_weight, v_weight, m_correction, v_correction, eps
):
    g = grad.float() + penalty * param
    new_m = m + m_weight * (g - m)
    new_v = v + v_weight * (g.square() - v)
    new_v_max = torch.maximum(v_max, new_v)
    change = (new_m / m_correction) / (torch.sqrt(new_v_max / v_correction) + eps)
    return param - lr * change, new_m, new_v, new_v_max
