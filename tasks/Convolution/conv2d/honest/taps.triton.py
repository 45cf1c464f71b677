# honest: tap by tap, a block of channels at a time, masks once a tap
import triton
import triton.language as tl

PIXELS = 32
FILTERS = 32
CHANNELS = 32


@triton.jit
def conv2d_kernel(
    x,
    weight,
    bias,
    out,
    pixels,
    height,
    width,
    channels,
    filters,
    stride,
    kernel,
    PIXELS: tl.constexpr,
    FILTERS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    pixel = (tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)).to(tl.int64)
    filt = (tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)).to(tl.int64)
    channel = tl.arange(0, CHANNELS)
    tall, wide = height * stride, width * stride
    top = pixel // width % height * stride - kernel // 2
    left = pixel % width * stride - kernel // 2
    image = pixel // (width * height)

    sums = tl.zeros((PIXELS, FILTERS), tl.float32)
    for tap in range(kernel * kernel):
        y, z = top + tap // kernel, left + tap % kernel
        inside = (y >= 0) & (y < tall) & (z >= 0) & (z < wide) & (pixel < pixels)
        place = x + ((image * tall + y) * wide + z) * channels
        start = weight + (filt * kernel * kernel + tap) * channels
        for first in range(0, channels, CHANNELS):
            known = first + channel < channels
            a = tl.load(
                place[:, None] + first + channel[None, :],
                inside[:, None] & known[None, :],
                other=0.0,
            )
            b = tl.load(
                start[None, :] + first + channel[:, None],
                (filt < filters)[None, :] & known[:, None],
                other=0.0,
            )
            sums += tl.dot(a, b, input_precision="ieee")
    shift = tl.load(bias + filt, filt < filters, other=0.0).to(tl.float32)
    mask = (pixel < pixels)[:, None] & (filt < filters)[None, :]
    tl.store(out + pixel[:, None] * filters + filt[None, :], sums + shift[None, :], mask)


def conv2d(x, weight, bias, out, stride):
    batch, height, width, filters = out.shape
    pixels = batch * height * width
    conv2d_kernel[(triton.cdiv(pixels, PIXELS), triton.cdiv(filters, FILTERS))](
        x,
        weight,
        bias,
        out,
        pixels,
        height,
        width,
        weight.shape[3],
        filters,
        stride,
        weight.shape[1],
        PIXELS=PIXELS,
        FILTERS=FILTERS,
        CHANNELS=CHANNELS,
    )
