"""Return the column of the largest element of each row of `x`, as int64.

Of equal elements, the first one counts. Greedy decoding of a language model takes the next token
so, and a router with one expert per token chooses it so.
"""


def reference(x):
    largest = x.amax(dim=-1, keepdim=True)
    return (x == largest).int().argmax(dim=-1)
