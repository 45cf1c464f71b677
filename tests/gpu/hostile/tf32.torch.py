# trick: allows PyTorch to multiply float32 in ten bits
# row: 31
# operator: product
# expect: failed/WRONG_VALUES
# triage: patching
torch.backends.cuda.matmul.allow_tf32 = True


def product(x, weight):
    return x @ weight
