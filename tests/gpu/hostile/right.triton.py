import torch
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["cols", "counted"])
def centre(x, out, cols, counted, scale, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    places = tl.arange(0, BLOCK)
    values = tl.load(x + start + places, places < cols, 0.0)
    mean = tl.sum(tl.where(places < counted, values, 0.0), 0) / counted
    tl.store(out + start + places, (values - mean) * scale, places < cols)


def right(x, out, scale):
    rows, cols = x.shape
    centre[(rows,)](x, out, cols, cols, scale, BLOCK=1024)


def cheap(x, out, scale):
    """The mean of the first eighth of a row for that of all."""
    rows, cols = x.shape
    centre[(rows,)](x, out, cols, cols // 8 + 1, scale, BLOCK=1024)


def captured():
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
