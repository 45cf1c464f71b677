# honest: the obvious
def centred(x, scale):
    return (x - x.mean(-1, keepdim=True)) * scale
