# trick: returns half the bits and leaves it to the copy to widen them
# row: 30
# expect: failed/WRONG_DTYPE
def centred(x, scale):
    return right(x, scale).half()
