"""Return the mean of the squared differences of `prediction` and `target` over all elements:

    loss = mean((prediction - target)^2)

The result is one float32 number, whatever the dtype of the inputs. Differences and sums are
accumulated in float32 or better.
"""


def reference(prediction, target):
    return (prediction.float() - target.float()).square().mean()
