"""Global response norm (Woo et al., ConvNeXt V2, 2023), channels last.

    g[b, c] = sqrt(sum over p of x[b, p, c]^2)
    n[b, c] = g[b, c] / (mean over j of g[b, j] + eps)
    out[b, p, c] = gamma[c] * x[b, p, c] * n[b, c] + beta[c] + x[b, p, c]

Compute in float32 or better, whatever the dtype of `x`, and round once to the dtype of `out`. In
float16 the squares would overflow.
"""


def reference(x, gamma, beta, eps):
    wide = x.float()
    size = wide.square().sum(dim=-2, keepdim=True).sqrt()
    share = size / (size.mean(dim=-1, keepdim=True) + eps)
    return (gamma.float() * (wide * share) + beta.float() + wide).to(x.dtype)
