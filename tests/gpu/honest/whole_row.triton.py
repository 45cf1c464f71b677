# honest: one program for each row, the whole of it at once
# after_faults: 1
import triton
import triton.language as tl


@triton.jit
def centre(x, out, cols, scale, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    places = tl.arange(0, BLOCK)
    values = tl.load(x + start + places, places < cols, 0.0)
    mean = tl.sum(values, 0) / cols
    tl.store(out + start + places, (values - mean) * scale, places < cols)


def centred(x, out, scale):
    rows, cols = x.shape
    centre[(rows,)](x, out, cols, scale, BLOCK=1024, num_warps=8)
