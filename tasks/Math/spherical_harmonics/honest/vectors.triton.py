# honest: a Gaussian a lane; its 48 coefficients are read as twelve vectors of four
import triton
import triton.language as tl

BLOCK = 128


@triton.jit
def four_of(coefficients, item, inside, first):
    """Return four neighbouring coefficients of each Gaussian."""
    part = tl.arange(0, 4)
    at = coefficients + item[:, None] * 48 + first + part[None, :]
    whole = tl.load(at, inside[:, None] & (part < 4)[None, :], other=0.0)
    even, odd = tl.split(tl.reshape(whole, (whole.shape[0], 2, 2)))
    a, c = tl.split(even)
    b, d = tl.split(odd)
    return a, b, c, d


@triton.jit
def add_four(red, green, blue, coefficients, item, inside, first, p, q, r, s):
    """Add the terms of four basis functions, whose coefficients are three vectors of four."""
    a, b, c, d = four_of(coefficients, item, inside, first)
    red, green, blue = red + p * a, green + p * b, blue + p * c
    red += q * d
    a, b, c, d = four_of(coefficients, item, inside, first + 4)
    green, blue = green + q * a, blue + q * b
    red, green = red + r * c, green + r * d
    a, b, c, d = four_of(coefficients, item, inside, first + 8)
    blue += r * a
    return red + s * b, green + s * c, blue + s * d


@triton.jit
def colour_kernel(coefficients, direction, out, n, BLOCK: tl.constexpr):
    item = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = item < n
    x = tl.load(direction + item * 3, inside, other=1.0)
    y = tl.load(direction + item * 3 + 1, inside, other=1.0)
    z = tl.load(direction + item * 3 + 2, inside, other=1.0)
    length = tl.sqrt(x * x + y * y + z * z)
    x, y, z = x / length, y / length, z / length
    xx, yy, zz = x * x, y * y, z * z
    red = tl.full((BLOCK,), 0.5, tl.float32)
    green, blue = red, red
    red, green, blue = add_four(
        red, green, blue, coefficients, item, inside, 0,
        0.28209479177387814, -0.4886025119029199 * y,
        0.4886025119029199 * z, -0.4886025119029199 * x,
    )  # fmt: skip
    red, green, blue = add_four(
        red, green, blue, coefficients, item, inside, 12,
        1.0925484305920792 * x * y, -1.0925484305920792 * y * z,
        0.31539156525252005 * (2 * zz - xx - yy), -1.0925484305920792 * x * z,
    )  # fmt: skip
    red, green, blue = add_four(
        red, green, blue, coefficients, item, inside, 24,
        0.5462742152960396 * (xx - yy), -0.5900435899266435 * y * (3 * xx - yy),
        2.890611442640554 * x * y * z, -0.4570457994644658 * y * (4 * zz - xx - yy),
    )  # fmt: skip
    red, green, blue = add_four(
        red, green, blue, coefficients, item, inside, 36,
        0.3731763325901154 * z * (2 * zz - 3 * xx - 3 * yy),
        -0.4570457994644658 * x * (4 * zz - xx - yy),
        1.445305721320277 * z * (xx - yy), -0.5900435899266435 * x * (xx - 3 * yy),
    )  # fmt: skip
    tl.store(out + item * 3, tl.maximum(red, 0.0), inside)
    tl.store(out + item * 3 + 1, tl.maximum(green, 0.0), inside)
    tl.store(out + item * 3 + 2, tl.maximum(blue, 0.0), inside)


def spherical_harmonics(coefficients, direction, out):
    n = coefficients.shape[0]
    colour_kernel[(triton.cdiv(n, BLOCK),)](
        coefficients, direction, out, n, BLOCK=BLOCK, num_warps=4
    )
