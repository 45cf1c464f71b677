"""Kullback-Leibler divergence of a student's from a teacher's distribution.

    p = softmax(teacher[t, :] / temperature),  q = softmax(student[t, :] / temperature)
    loss[t] = sum over v of p[v] * (log p[v] - log q[v])

Both logarithms come from log-softmax: divide, subtract the largest logit, then subtract the
logarithm of the sum of exponentials. A term with p = 0 is 0. Compute in float32 or better, whatever
the dtype of the logits; `loss` is float32. The loss is not multiplied by the squared temperature.
"""

import torch


def reference(student, teacher, temperature):
    log_q = torch.log_softmax(student.float() / temperature, dim=-1)
    log_p = torch.log_softmax(teacher.float() / temperature, dim=-1)
    return (log_p.exp() * (log_p - log_q)).sum(dim=-1)
