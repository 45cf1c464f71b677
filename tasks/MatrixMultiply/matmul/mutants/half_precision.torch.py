# mutant: multiplies in bfloat16
# expect: WRONG_VALUES
def matmul(a, b):
    return (a.bfloat16() @ b.bfloat16()).to(a.dtype)
