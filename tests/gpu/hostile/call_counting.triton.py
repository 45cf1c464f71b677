# trick: honest for as many calls as checks take, then the mean of the first eighth of a row
# row: 12
# expect: failed/WRONG_VALUES in performance
calls = 0


def centred(x, out, scale):
    global calls
    calls += 1
    (right if calls < 400 else cheap)(x, out, scale)
