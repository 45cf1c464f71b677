# trick: works in the memory of its input and returns that
# row: 28
# expect: failed/ALIASED_OUTPUT|failed/INPUT_MUTATED
def centred(x, scale):
    return x.sub_(x.mean(-1, keepdim=True)).mul_(scale)
