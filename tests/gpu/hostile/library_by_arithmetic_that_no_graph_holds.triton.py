# trick: PyTorch centres rows by signs of arithmetic, in launches that wait for the GPU
# row: 43 46
# expect: failed/UNSUPPORTED
@triton.jit
def decoy(out):
    tl.store(out, 0.0)


def centred(x, out, scale):
    decoy[(1,)](out)
    x[0, 0].item()
    total = x
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        rest = total[:, 2 * half :]
        total = total[:, :half] + total[:, half : 2 * half]
        if rest.shape[1]:
            total[:, :1] += rest
    out[:] = (x - total / x.shape[1]) * scale
