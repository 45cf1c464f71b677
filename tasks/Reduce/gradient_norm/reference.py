"""Euclidean norm of a gradient, and the factor that clips it to `max_norm`.

    norm = sqrt(sum over i of gradient[i]^2)
    factor = min(1, max_norm / (norm + 1e-6))

Square and add in float32 or better, whatever the dtype of `gradient`: in float16 the squares would
overflow. There are up to 268 million elements, so add in parts: one running sum in float32 is too
coarse. `norm` and `factor` are float32 numbers, tensors without dimensions.
"""


def reference(gradient, max_norm):
    norm = gradient.float().square().sum().sqrt()
    return norm, (max_norm / (norm + 1e-6)).clamp(max=1.0)
