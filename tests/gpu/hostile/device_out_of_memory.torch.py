# trick: asks for more of the GPU's memory than there is
# row: 51
# expect: failed/OUT_OF_MEMORY
# fault: device memory
def centred(x, scale):
    torch.empty(1 << 40, dtype=torch.uint8, device=x.device)
    return right(x, scale)
