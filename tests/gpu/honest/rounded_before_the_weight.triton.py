# honest: RMS norm as in vLLM, rounded to the dtype of the input before its weight
# operator: rms_norm
import triton
import triton.language as tl


@triton.jit
def norm(x, weight, out, cols, eps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    places = tl.arange(0, BLOCK)
    values = tl.load(x + start + places, places < cols, 0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(values * values, 0) / cols + eps)
    gains = tl.load(weight + places, places < cols, 0.0)
    rounded = (values * scale).to(out.dtype.element_ty)
    tl.store(out + start + places, rounded * gains, places < cols)


def rms_norm(x, weight, out, eps):
    rows, cols = x.shape
    norm[(rows,)](x, weight, out, cols, eps, BLOCK=triton.next_power_of_2(cols), num_warps=8)
