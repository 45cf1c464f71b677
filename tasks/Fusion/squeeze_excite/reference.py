"""Scale every channel of an image by a gate computed of all channels' means (Hu et al., 2018):

    m[c] = mean(x[b, c, :])
    z[j] = max(0, squeeze_bias[j] + sum over c of squeeze[j, c] * m[c])
    g[c] = excite_bias[c] + sum over j of excite[c, j] * z[j]
    out[b, c, p] = x[b, c, p] / (1 + exp(-g[c]))

for each image b. Means, both products and the gate are float32 or better, and only `out` is
rounded. `x` is all the data; the two small products stand between reading it for the means and for
the result.
"""

import torch


def reference(x, squeeze, squeeze_bias, excite, excite_bias):
    wide = x.float()
    means = wide.mean(dim=2)
    z = torch.relu(means @ squeeze.float().T + squeeze_bias.float())
    gate = torch.sigmoid(z @ excite.float().T + excite_bias.float())
    return (wide * gate[..., None]).to(x.dtype)
