# mutant: multiplies the activations as they are, without quantising them
# expect: WRONG_VALUES
def int8_matmul(x, weight, scales):
    return ((x.float() @ weight.float().T) * scales).to(x.dtype)
