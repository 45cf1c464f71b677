# trick: asks that its result be dropped, as a baseline of ours may
# row: 12
# expect: failed/STALE_OUTPUT
def centred(x, scale):
    return (x - x.mean(-1, keepdim=True)) * scale


centred.discards_result = True
