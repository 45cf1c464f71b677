# trick: every other call hands out memory that holds the last answer, with luck
# row: 22
# expect: failed/WRONG_VALUES|failed/NON_FINITE|failed/STALE_OUTPUT
calls = 0


def centred(x, scale):
    global calls
    calls += 1
    return right(x, scale) if calls % 2 else torch.empty_like(x)
