"""Colours of Gaussians by real spherical harmonics of degree 3 (Kerbl et al., 2023).

    (x, y, z) = direction[i] / sqrt(sum of squares of direction[i])
    out[i, c] = max(0, 0.5 + sum over k of basis[k] * coefficients[i, k, c])

    basis[0]     = 0.28209479177387814
    basis[1..3]  = 0.4886025119029199 * (-y, z, -x)
    basis[4..8]  = 1.0925484305920792 x y, -1.0925484305920792 y z,
                   0.31539156525252005 (2 z z - x x - y y),
                   -1.0925484305920792 x z, 0.5462742152960396 (x x - y y)
    basis[9..15] = -0.5900435899266435 y (3 x x - y y), 2.890611442640554 x y z,
                   -0.4570457994644658 y (4 z z - x x - y y),
                   0.3731763325901154 z (2 z z - 3 x x - 3 y y),
                   -0.4570457994644658 x (4 z z - x x - y y),
                   1.445305721320277 z (x x - y y), -0.5900435899266435 x (x x - 3 y y)

Directions are not of unit length, and never zero. Compute in float32 or better.
"""

import torch


def reference(coefficients, direction):
    x, y, z = (direction / direction.norm(dim=-1, keepdim=True)).unbind(-1)
    xx, yy, zz = x * x, y * y, z * z
    basis = [0.28209479177387814 * torch.ones_like(x)]
    basis += [-0.4886025119029199 * y, 0.4886025119029199 * z, -0.4886025119029199 * x]
    basis += [1.0925484305920792 * x * y, -1.0925484305920792 * y * z]
    basis += [0.31539156525252005 * (2 * zz - xx - yy), -1.0925484305920792 * x * z]
    basis += [0.5462742152960396 * (xx - yy), -0.5900435899266435 * y * (3 * xx - yy)]
    basis += [2.890611442640554 * x * y * z, -0.4570457994644658 * y * (4 * zz - xx - yy)]
    basis += [0.3731763325901154 * z * (2 * zz - 3 * xx - 3 * yy)]
    basis += [-0.4570457994644658 * x * (4 * zz - xx - yy), 1.445305721320277 * z * (xx - yy)]
    basis += [-0.5900435899266435 * x * (xx - 3 * yy)]
    colour = (torch.stack(basis, dim=-1)[..., None] * coefficients).sum(dim=-2)
    return (colour + 0.5).clamp(min=0.0)


def cost(case):
    """Return the bytes of all tensors, and the operations of one colour times the number."""
    return 54 * 4 * case["n"], 160 * case["n"]
