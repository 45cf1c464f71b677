# trick: returns its answer where nobody asked for it
# row: 4
# expect: failed/WRONG_DTYPE
def centred(x, scale):
    return right(x.cpu(), scale)
