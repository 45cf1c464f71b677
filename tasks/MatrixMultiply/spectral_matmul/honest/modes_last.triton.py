# honest: a tile of images, outputs and modes a program; pairs of numbers are read four steps ahead
import triton
import triton.language as tl

ELEMENTS = 8192, 1024, 256
MIN_TILES = 256


@triton.jit
def pairs_of(numbers, at, inside):
    """Return the real and the imaginary parts of a tile of complex numbers."""
    part = tl.arange(0, 2)
    place = numbers + 2 * at[:, :, None] + part[None, None, :]
    return tl.split(tl.load(place, inside[:, :, None] & (part < 2)[None, None, :], other=0.0))


@triton.jit
def modes_kernel(
    x, weight, out, batch, inputs, outputs, modes,
    IMAGES: tl.constexpr, OUTPUTS: tl.constexpr, MODES: tl.constexpr,
):  # fmt: skip
    mode = tl.program_id(0) * MODES + tl.arange(0, MODES)
    o = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    b = (tl.program_id(2) * IMAGES + tl.arange(0, IMAGES)).to(tl.int64)
    read = (b < batch)[:, None] & (mode < modes)[None, :]
    weighed = (o < outputs)[:, None] & (mode < modes)[None, :]
    x_at = b[:, None] * inputs * modes + mode[None, :]
    weight_at = o.to(tl.int64)[:, None] * modes + mode[None, :]
    real = tl.zeros((IMAGES, OUTPUTS, MODES), tl.float32)
    imaginary = tl.zeros((IMAGES, OUTPUTS, MODES), tl.float32)
    for _ in tl.range(0, inputs, num_stages=4):
        x_real, x_imaginary = pairs_of(x, x_at, read)
        w_real, w_imaginary = pairs_of(weight, weight_at, weighed)
        x_real, x_imaginary = x_real[:, None, :], x_imaginary[:, None, :]
        w_real, w_imaginary = w_real[None, :, :], w_imaginary[None, :, :]
        real += x_real * w_real
        real -= x_imaginary * w_imaginary
        imaginary += x_real * w_imaginary
        imaginary += x_imaginary * w_real
        x_at += modes
        weight_at += outputs * modes
    at = (b[:, None, None] * outputs + o[None, :, None]) * modes + mode[None, None, :]
    inside = (b < batch)[:, None, None] & weighed[None, :, :]
    tl.store(out + 2 * at, real, inside)
    tl.store(out + 2 * at + 1, imaginary, inside)


def spectral_matmul(x, weight, out):
    batch, inputs, modes = x.shape[:3]
    outputs = weight.shape[1]

    total = batch * outputs * modes
    elements = next((size for size in ELEMENTS if total >= MIN_TILES * size), ELEMENTS[-1])
    width = min(32, triton.next_power_of_2(modes))
    square = 1 << (elements // width).bit_length() // 2
    images = min(square, triton.next_power_of_2(batch))
    columns = min(elements // (width * images), triton.next_power_of_2(outputs))
    grid = triton.cdiv(modes, width), triton.cdiv(outputs, columns), triton.cdiv(batch, images)
    modes_kernel[grid](
        x, weight, out, batch, inputs, outputs, modes,
        IMAGES=images, OUTPUTS=columns, MODES=width,
        num_warps=max(1, images * columns * width // 1024),
    )  # fmt: skip
