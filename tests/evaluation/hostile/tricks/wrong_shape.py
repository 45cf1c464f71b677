# trick: returns one row, which would be broadcast
# row: 24
# expect: failed/WRONG_SHAPE|failed/WRONG_VALUES
def centred(x, scale):
    return ((x - x.mean(-1, keepdim=True)) * scale).reshape(-1)
