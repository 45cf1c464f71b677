# honest: tuned when it is first called
import triton
import triton.language as tl


@triton.autotune(
    [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((256, 2), (1024, 4))],
    key=[],
)
@triton.jit(do_not_specialize=["cols"])
def centre(x, out, cols, scale, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, cols, BLOCK):
        places = first + tl.arange(0, BLOCK)
        total += tl.load(x + start + places, places < cols, 0.0)
    mean = tl.sum(total, 0) / cols
    for first in range(0, cols, BLOCK):
        places = first + tl.arange(0, BLOCK)
        values = tl.load(x + start + places, places < cols, 0.0)
        tl.store(out + start + places, (values - mean) * scale, places < cols)


def centred(x, out, scale):
    rows, cols = x.shape
    centre[(rows,)](x, out, cols, scale)
