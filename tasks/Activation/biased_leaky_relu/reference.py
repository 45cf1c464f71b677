"""Bias of each channel, leaky ReLU and gain, as in StyleGAN 2 (Karras et al., 2020).

    y = x[b, c, p] + bias[c]
    out[b, c, p] = gain * (y if y >= 0 else slope * y)

Compute in float32 or better, whatever the dtype of the inputs, and round once to the dtype of
`out`.
"""

import torch


def reference(x, bias, slope, gain):
    y = x.float() + bias.float()[:, None]
    return (torch.nn.functional.leaky_relu(y, slope) * gain).to(x.dtype)
