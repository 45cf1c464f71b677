# trick: returns one buffer again and again
# row: 29
# expect: failed/ALIASED_OUTPUT
buffers = {}


def centred(x, scale):
    kept = buffers.setdefault(x.shape, torch.empty_like(x))
    return kept.copy_(right(x, scale))
