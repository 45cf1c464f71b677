# trick: returns its input
# row: 28
# expect: failed/ALIASED_OUTPUT
def centred(x, scale):
    return x
