"""Sort the slots of a mixture of experts by their expert, and return where each expert starts.

`assigned[s]` is the expert of slot s, from 0 to experts - 1. `order` lists all slots by expert;
slots of the same expert stay in order of their number. `starts[e]` is how many slots have an
expert below e, for e from 0 to `experts`: the slots of expert e are order[starts[e]] to
order[starts[e + 1] - 1]. An expert may have none. Both results are int64 and exact. Experts are
few, so counting is faster than comparing.
"""

import torch


def reference(assigned, experts):
    ordered, order = torch.sort(assigned, stable=True)
    bounds = torch.arange(int(experts) + 1, device=assigned.device)
    return order, torch.searchsorted(ordered, bounds)


def cost(case):
    slots = case["slots"]
    return 16 * slots + 8 * case["bounds"], 2 * slots
