"""Predict the covariance of every Kalman filter of a batch: out = F P F^T + Q.

    out[n, i, j] = noise[n, i, j] + sum over k, l of transition[n, i, k] * covariance[n, k, l]
                                                     * transition[n, j, l]

Products are float32 and summed in float32 or better: TF32 is too coarse. No matrix need be
symmetric. The product F P need never be written to memory.
"""

import torch


def reference(transition, covariance, noise):
    moved = torch.bmm(transition, covariance)
    return torch.bmm(moved, transition.transpose(1, 2)) + noise
