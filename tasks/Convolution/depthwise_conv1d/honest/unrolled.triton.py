# honest: a run of one channel a program, whose taps are unrolled; weights stay in registers
import triton
import triton.language as tl


@triton.jit
def conv_kernel(x, weight, bias, out, channels, time, KERNEL: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(0).to(tl.int64)
    channel = plane % channels
    t = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    source = x + plane * time + t - KERNEL // 2
    total = tl.zeros((BLOCK,), tl.float32) + tl.load(bias + channel).to(tl.float32)
    for tap in tl.static_range(KERNEL):
        at = t + (tap - KERNEL // 2)
        value = tl.load(source + tap, (at >= 0) & (at < time), other=0.0).to(tl.float32)
        total += tl.load(weight + channel * KERNEL + tap).to(tl.float32) * value
    tl.store(out + plane * time + t, total, t < time)


def depthwise_conv1d(x, weight, bias, out):
    batch, channels, time = x.shape
    block = 256 if time <= 256 else (512 if time <= 512 else 1024)
    conv_kernel[(batch * channels, triton.cdiv(time, block))](
        x, weight, bias, out, channels, time,
        KERNEL=weight.shape[1], BLOCK=block, num_warps=4,
    )  # fmt: skip
