"""Layer norm (Ba, Kiros and Hinton, 2016) and its backward pass, as in one step of training.

    mean, variance: of x[r, all columns]; the variance divides by their number
    norm[r, c] = (x[r, c] - mean[r]) / sqrt(variance[r] + eps)
    out[r, c] = norm[r, c] * weight[c] + bias[c]

`gradient` is the gradient of the loss with respect to `out`. The other outputs are the gradients
with respect to the inputs:

    bias_gradient[c] = sum over r of gradient[r, c]
    weight_gradient[c] = sum over r of gradient[r, c] * norm[r, c]
    shared[r, c] = mean(g[r]) + norm[r, c] * mean(g[r] * norm[r])
    x_gradient[r, c] = (g[r, c] - shared[r, c]) / sqrt(variance[r] + eps)

Here g[r, c] = gradient[r, c] * weight[c], and means are over the columns. Compute in float32 or
better, whatever the dtype of `x`, and round each output once.
"""

import torch


def reference(x, weight, bias, gradient, eps):
    def forward(x, weight, bias):
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)

    out, backward = torch.func.vjp(forward, x.float(), weight.float(), bias.float())
    return tuple(y.to(x.dtype) for y in (out, *backward(gradient.float())))
