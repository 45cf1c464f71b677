# trick: allows PyTorch to multiply float32 in ten bits
# row: 31
# operator: product
# expect: failed/WRONG_VALUES
torch.set_float32_matmul_precision("high")


def product(x, weight):
    return x @ weight
