# trick: asks for what baselines are granted, that its result be dropped
# row: 23
# expect: failed/STALE_OUTPUT
def centred(x, scale):
    return right(x, scale)


centred.discards_result = True
