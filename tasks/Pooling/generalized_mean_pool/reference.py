"""Generalised mean of each row (Radenovic et al., 2018).

    out[r] = (mean over p of max(x[r, p], eps)^power)^(1 / power)

A row is a channel of an image. Compute in float32 or better, whatever the dtype of `x`, and round
once to the dtype of `out`. In float16 the powers would overflow.
"""


def reference(x, power, eps):
    mean = x.float().clamp(min=eps).pow(power).mean(dim=-1)
    return mean.pow(1 / power).to(x.dtype)
