# honest: exponentials and their sum, written out, in float32
def softmax(x):
    wide = x.float()
    powers = (wide - wide.amax(dim=-1, keepdim=True)).exp()
    return (powers / powers.sum(dim=-1, keepdim=True)).to(x.dtype)
