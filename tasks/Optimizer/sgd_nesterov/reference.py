"""Make one step of gradient descent with Nesterov momentum on a flat parameter:

    g = grad + penalty * param
    new_velocity = momentum * velocity + g
    new_param = param - lr * (g + momentum * new_velocity)

`grad` has the dtype of the case; all else is float32, and so is the arithmetic. The results are
new tensors: the inputs must not be changed. This is `torch.optim.SGD` with `nesterov=True` and no
dampening.
"""


def reference(param, grad, velocity, lr, momentum, penalty):
    g = grad.float() + penalty * param
    new_velocity = momentum * velocity + g
    return param - lr * (g + momentum * new_velocity), new_velocity
