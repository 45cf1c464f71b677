"""Add up the messages of a graph's edges at their target nodes:

    out[n, c] = sum over all e with targets[e] = n of messages[e, c]

Targets lie between 0 and nodes - 1, in no order. A node without edges gets zeros. Sums are float32
or better, whatever the dtype of `messages`, and rounded once; their order is free. Every element
of `out` must be written, and no earlier content of it may be read.
"""


def reference(messages, targets, nodes):
    total = messages.float().new_zeros(int(nodes), messages.shape[1])
    return total.index_add(0, targets, messages.float()).to(messages.dtype)
