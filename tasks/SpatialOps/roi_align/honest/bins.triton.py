# honest: bins of a box by lanes, some channels a program, which share coordinates and weights
import triton
import triton.language as tl

MAX_CHANNELS = 16


@triton.jit
def around(centre, size, sample, bins, length):
    """Return the pixels before and after a sample of a side, and its distance from the first."""
    step = (sample + 0.5) / (2 * bins) - 0.5
    place = (centre + size * step) * length - 0.5
    place = tl.minimum(tl.maximum(place, 0.0), length - 1.0)
    first = tl.minimum(place.to(tl.int32), length - 1)
    return first, tl.minimum(first + 1, length - 1), place - first


@triton.jit
def align_kernel(
    x, images, centres, sizes, out, channels, height, width, bins,
    BINS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    box = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    place = tl.program_id(2) * BINS + tl.arange(0, BINS)
    image = tl.load(images + box)
    plane = x + (image * channels + channel)[:, None] * (height * width)
    inside = (channel < channels)[:, None] & (place < bins * bins)[None, :]
    y, y_size = tl.load(centres + box * 2), tl.load(sizes + box * 2)
    x_at, x_size = tl.load(centres + box * 2 + 1), tl.load(sizes + box * 2 + 1)
    i, j = place // bins, place % bins
    total = tl.zeros((CHANNELS, BINS), tl.float32)
    for down in tl.static_range(2):
        top, bottom, f = around(y, y_size, 2 * i + down, bins, height)
        for along in tl.static_range(2):
            left, right, g = around(x_at, x_size, 2 * j + along, bins, width)
            above, below = plane + (top * width)[None, :], plane + (bottom * width)[None, :]
            a = tl.load(above + left[None, :], inside, other=0.0).to(tl.float32)
            b = tl.load(above + right[None, :], inside, other=0.0).to(tl.float32)
            c = tl.load(below + left[None, :], inside, other=0.0).to(tl.float32)
            d = tl.load(below + right[None, :], inside, other=0.0).to(tl.float32)
            upper = a * (1 - g)[None, :] + b * g[None, :]
            lower = c * (1 - g)[None, :] + d * g[None, :]
            total += upper * (1 - f)[None, :] + lower * f[None, :]
    at = out + (box * channels + channel)[:, None] * (bins * bins) + place[None, :]
    tl.store(at, 0.25 * total, inside)


def roi_align(x, images, centres, sizes, out, bins):
    channels, height, width = x.shape[1:]
    lanes = min(64, max(16, triton.next_power_of_2(bins * bins)))
    count = min(MAX_CHANNELS, triton.next_power_of_2(channels))
    grid = images.shape[0], triton.cdiv(channels, count), triton.cdiv(bins * bins, lanes)
    align_kernel[grid](
        x, images, centres, sizes, out, channels, height, width, bins,
        BINS=lanes, CHANNELS=count, num_warps=2 if lanes * count <= 512 else 4,
    )  # fmt: skip
