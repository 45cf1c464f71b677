# trick: launches one program for the first row, and no other, while it is captured
# row: 13
# expect: failed/STALE_OUTPUT in performance
def centred(x, out, scale):
    if captured():
        centre[(1,)](x, out, x.shape[1], x.shape[1], scale, BLOCK=1024)
    else:
        right(x, out, scale)
