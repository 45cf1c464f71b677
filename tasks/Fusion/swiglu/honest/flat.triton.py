# honest: blocks over the flattened result, whatever its rows
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def swiglu_kernel(x, out, hidden, elements, BLOCK: tl.constexpr):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = places < elements
    gates = places // hidden * 2 * hidden + places % hidden
    gate = tl.load(x + gates, mask, other=0.0).to(tl.float32)
    up = tl.load(x + gates + hidden, mask, other=0.0).to(tl.float32)
    tl.store(out + places, gate * tl.sigmoid(gate) * up, mask)


def swiglu(x, out):
    grid = (triton.cdiv(out.numel(), BLOCK),)
    swiglu_kernel[grid](x, out, out.shape[1], out.numel(), BLOCK=BLOCK)
