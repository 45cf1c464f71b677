# trick: float32 in half its bits
# row: 30
# expect: failed/WRONG_VALUES|failed/NON_FINITE
def centred(x, scale):
    return right(x.half(), scale).float()
