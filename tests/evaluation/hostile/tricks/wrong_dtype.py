# trick: returns half precision
# row: 30
# expect: failed/WRONG_DTYPE
def centred(x, scale):
    return ((x - x.mean(-1, keepdim=True)) * scale).half()
