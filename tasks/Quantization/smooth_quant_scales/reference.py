"""Move the outliers of activations into the weights (SmoothQuant, Xiao et al., 2023):

    a = max over t of |x[t, c]|,   w = max over o of |weight[o, c]|,   both at least 1e-5
    scales[c] = a^alpha / w^(1 - alpha)
    smoothed[o, c] = weight[o, c] * scales[c]

Both maxima run down a column, across rows that lie far apart. Powers and the quotient are float32
or better, and `scales` is float32. `smoothed` is rounded once to the dtype of `weight`.
"""


def reference(x, weight, alpha):
    a = x.abs().amax(dim=0).float().clamp(min=1e-5)
    w = weight.abs().amax(dim=0).float().clamp(min=1e-5)
    scales = a**alpha / w ** (1 - alpha)
    return scales, (weight.float() * scales).to(weight.dtype)
