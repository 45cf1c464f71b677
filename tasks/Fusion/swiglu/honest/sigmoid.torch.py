# honest: the logistic function written out, in float32
def swiglu(x):
    gate, up = x.float().chunk(2, dim=-1)
    return (gate * gate.sigmoid() * up).to(x.dtype)
