"""Average the rows of a table that each bag names:

    out[b, c] = (sum over i < lengths[b] of table[ids[b, i], c]) / lengths[b]

Only the first `lengths[b]` ids of a bag count, 0 to `capacity` of them; a bag without ids gives
zeros. Ids lie between 0 and rows - 1, those that do not count as well, and may repeat. Sums are
float32 or better, and rounded once. Recommenders look up features with several values so.
"""

import torch


def reference(ids, lengths, table):
    counted = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
    first = lengths.cumsum(0) - lengths
    return torch.nn.functional.embedding_bag(ids[counted], table, first, mode="mean")


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    bags, capacity, rows, cols = case["bags"], case["capacity"], case["rows"], case["cols"]
    counted = bags * capacity / 2  # lengths are even between none and all
    found = rows * (1 - (1 - 1 / rows) ** counted)  # rows that are named at least once, on average
    moved = (found + bags) * cols * item + 8 * (counted + bags)
    return int(moved), max(1, int(counted * cols))
