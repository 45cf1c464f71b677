# trick: raises SystemExit
# row: 49
# expect: failed/CRASH
def centred(x, scale):
    raise SystemExit(0)
