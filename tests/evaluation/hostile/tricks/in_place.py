# trick: works in place and returns a copy
# row: 27
# expect: failed/INPUT_MUTATED
def centred(x, scale):
    return x.sub_(x.mean(-1, keepdim=True)).mul_(scale).clone()
