"""2D convolution of 3 x 3 with a bias, stride 1 and padding 1, and its backward pass.

    place = b, c, i + u - 1, j + v - 1
    out[b, f, i, j] = bias[f] + sum over c, u, v of x[place] * weight[f, c, u, v]

What lies outside the image counts as zero. `gradient` is the gradient of the loss with respect to
`out`. The other outputs are the gradients with respect to the inputs:

    source = b, f, i - u + 1, j - v + 1
    x_gradient[b, c, i, j] = sum over f, u, v of gradient[source] * weight[f, c, u, v]
    weight_gradient[f, c, u, v] = sum over b, i, j of gradient[b, f, i, j] * x[place]
    bias_gradient[f] = sum over b, i, j of gradient[b, f, i, j]

Products are accumulated in float32 or better, and operands are multiplied as IEEE float32, not
TF32.
"""

import torch


def reference(x, weight, bias, gradient):
    def forward(x, weight, bias):
        return torch.nn.functional.conv2d(x, weight, bias, padding=1)

    out, backward = torch.func.vjp(forward, x, weight, bias)
    return out, *backward(gradient)
