"""Rotation matrices of quaternions of any length, as in 3D Gaussian splatting.

    (w, x, y, z) = quaternion[i] / sqrt(sum of squares of quaternion[i])

    out[i] = [[1 - 2 (y y + z z),  2 (x y - w z),      2 (x z + w y)],
              [2 (x y + w z),      1 - 2 (x x + z z),  2 (y z - w x)],
              [2 (x z - w y),      2 (y z + w x),      1 - 2 (x x + y y)]]

The real part comes first. Quaternions are not of unit length, and never zero. Compute in float32 or
better.
"""

import torch


def reference(quaternion):
    w, x, y, z = (quaternion / quaternion.norm(dim=-1, keepdim=True)).unbind(-1)
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)


def cost(case):
    """Return the bytes of all tensors, and the operations of one matrix times the number."""
    return 13 * 4 * case["n"], 48 * case["n"]
