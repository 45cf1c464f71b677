"""Causal attention (Vaswani et al., 2017) and its backward pass, as in one step of training.

    scores[h, i, j] = sum over d of q[h, i, d] * k[h, j, d] / sqrt(head_dim), for j <= i
    p[h, i] = softmax of scores[h, i] over j <= i, and 0 for j > i
    out[h, i, d] = sum over j of p[h, i, j] * v[h, j, d]

`gradient` is the gradient of the loss with respect to `out`. The other outputs are the gradients
with respect to the inputs:

    v_gradient[h, j, d] = sum over i of p[h, i, j] * gradient[h, i, d]
    s[h, i, j] = p[h, i, j] * sum over d of gradient[h, i, d] * (v[h, j, d] - out[h, i, d])
    q_gradient[h, i, d] = sum over j of s[h, i, j] * k[h, j, d] / sqrt(head_dim)
    k_gradient[h, j, d] = sum over i of s[h, i, j] * q[h, i, d] / sqrt(head_dim)

Products are accumulated in float32 or better, and operands are multiplied as IEEE float32, not
TF32.
"""

import torch


def reference(q, k, v, gradient):
    def forward(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    out, backward = torch.func.vjp(forward, q, k, v)
    return out, *backward(gradient)
