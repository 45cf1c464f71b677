# honest: few programs that take rows in turn, with a helper function of its own
import triton
import triton.language as tl


@triton.jit
def less_mean(values, cols):
    return values - tl.sum(values, 0) / cols


@triton.jit(do_not_specialize=["rows", "cols"])
def centre(x, out, rows, cols, scale, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    mask = places < cols
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        values = tl.load(x + row * cols + places, mask, 0.0)
        centred_values = tl.where(mask, less_mean(values, cols), 0.0)
        tl.store(out + row * cols + places, centred_values * scale, mask)


def centred(x, out, scale):
    rows, cols = x.shape
    centre[(min(rows, 132),)](x, out, rows, cols, scale, BLOCK=1024, num_warps=2)
