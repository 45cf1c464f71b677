# trick: computes in bfloat16
# row: 30
# expect: failed/WRONG_VALUES
def centred(x, scale):
    low = x.bfloat16()
    return ((low - low.mean(-1, keepdim=True)) * scale).float()
