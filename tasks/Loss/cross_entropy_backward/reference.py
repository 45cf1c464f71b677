"""Mean cross entropy of tokens with classes as targets, and its backward pass.

    loss = mean over t of log(sum over v of exp(logits[t, v])) - logits[t, targets[t]]
    chosen[t, v] = 1 if v == targets[t] else 0
    logits_gradient[t, v] = gradient / tokens * (softmax(logits[t])[v] - chosen[t, v])

`gradient` is the gradient with respect to `loss`: one number, such as the scale of mixed precision.
Subtract the maximum of a row before the exponential. Compute in float32 or better, whatever the
dtype of `logits`; `loss` is float32, and `logits_gradient` is rounded once.
"""

import torch


def reference(logits, targets, gradient):
    def forward(logits):
        return torch.nn.functional.cross_entropy(logits, targets)

    loss, backward = torch.func.vjp(forward, logits.float())
    return loss, backward(gradient)[0].to(logits.dtype)
