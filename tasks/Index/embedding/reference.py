"""Copy the rows of a table that `ids` name:

    out[t, c] = table[ids[t], c]

`ids` lie between 0 and vocab - 1, in any order, and may repeat. Values are copied bit for bit. The
work is bound by how well rows that lie far apart are read.
"""


def reference(ids, table):
    return table[ids]


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    tokens, vocab, cols = case["tokens"], case["vocab"], case["cols"]
    found = vocab * (1 - (1 - 1 / vocab) ** tokens)  # rows that are named at least once, on average
    return int((found + tokens) * cols * item) + 8 * tokens, tokens * cols
