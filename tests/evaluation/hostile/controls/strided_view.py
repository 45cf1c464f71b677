# honest: returns a transposed view of its own memory
def centred(x, scale):
    columns = x.t().contiguous()
    return ((columns - columns.mean(0, keepdim=True)) * scale).t()
