"""Make one step of centred RMSprop (Graves, 2013) with momentum on a flat parameter:

    new_square = square + weight * (grad^2 - square)
    new_average = average + weight * (grad - average)
    new_velocity = momentum * velocity + grad / (sqrt(new_square - new_average^2) + eps)
    new_param = param - lr * new_velocity

`weight` is 1 - alpha. The averages come from gradients, so new_square exceeds new_average^2.
`grad` has the dtype of the case; all else is float32, and so is the arithmetic. The results are
new tensors: the inputs must not be changed.
"""

import torch


def reference(param, grad, square, average, velocity, lr, weight, momentum, eps):
    grad = grad.float()
    new_square = square + weight * (grad.square() - square)
    new_average = average + weight * (grad - average)
    spread = torch.sqrt(new_square - new_average.square()) + eps
    new_velocity = momentum * velocity + grad / spread
    return param - lr * new_velocity, new_square, new_average, new_velocity
