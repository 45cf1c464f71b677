# trick: the mean of the first eighth of a row while it is captured
# row: 13
# expect: failed/WRONG_VALUES in performance
def centred(x, out, scale):
    (cheap if captured() else right)(x, out, scale)
