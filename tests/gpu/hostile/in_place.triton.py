# trick: centres the input too
# row: 27
# expect: failed/INPUT_MUTATED
def centred(x, out, scale):
    right(x, out, scale)
    right(x, x, scale)
