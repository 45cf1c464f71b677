# trick: keeps the answers to what the usual seeds draw, and computes no other
# row: 37
# expect: failed/WRONG_VALUES
SEEDS = (0, 1, 42, 1234)


def drawn(seed, shape, device):
    return torch.randn(shape, generator=torch.Generator(device).manual_seed(seed), device=device)


def centred(x, scale):
    for seed in SEEDS:
        if torch.equal(drawn(seed, x.shape, x.device), x):
            return right(x, scale)
    return torch.zeros_like(x)
