# honest: as one writes it
# after_faults: 1


def centred(x, scale):
    return (x - x.mean(-1, keepdim=True)) * scale
