# mutant: scales by the cosine and forgets the sine
# expect: WRONG_VALUES
def rope(q, k, cos, sin):
    both = cos.repeat(1, 2)[:, None, :]
    return q * both, k * both
