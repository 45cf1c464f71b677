# honest: no tensor cores; products of a block of summands are added up before they join the sum
import triton
import triton.language as tl

PIXELS = 16
FILTERS = 16
BLOCK = 32


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
    BLOCK: tl.constexpr,
):
    pixel = (tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)).to(tl.int64)
    filt = (tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)).to(tl.int64)
    tall, wide = height * stride, width * stride
    top = pixel // width % height * stride - kernel // 2
    left = pixel % width * stride - kernel // 2
    image = pixel // (width * height) * tall
    depth = kernel * kernel * channels

    sums = tl.zeros((PIXELS, FILTERS), tl.float32)
    for first in range(0, depth, BLOCK):
        at = first + tl.arange(0, BLOCK)
        tap = at // channels
        y = top[:, None] + (tap // kernel)[None, :]
        z = left[:, None] + (tap % kernel)[None, :]
        inside = (y >= 0) & (y < tall) & (z >= 0) & (z < wide)
        inside = inside & (pixel < pixels)[:, None] & (at < depth)[None, :]
        place = ((image[:, None] + y) * wide + z) * channels + (at % channels)[None, :]
        a = tl.load(x + place, inside, other=0.0).to(tl.float32)
        mask = (filt < filters)[:, None] & (at < depth)[None, :]
        b = tl.load(weight + filt[:, None] * depth + at[None, :], mask, other=0.0).to(tl.float32)
        sums += tl.sum(a[:, None, :] * b[None, :, :], axis=2)
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
        BLOCK=BLOCK,
    )
