# honest: a quaternion a lane, read as one vector; matrices are joined, so that rows are contiguous
import triton
import triton.language as tl

BLOCK = 256


@triton.jit
def rotation_kernel(quaternion, out, n, BLOCK: tl.constexpr):
    item = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    part = tl.arange(0, 4)
    inside = (item < n)[:, None] & (part < 4)[None, :]
    whole = tl.load(quaternion + item[:, None] * 4 + part[None, :], inside, other=1.0)
    even, odd = tl.split(tl.reshape(whole, (BLOCK, 2, 2)))
    w, y = tl.split(even)
    x, z = tl.split(odd)
    length = tl.sqrt(w * w + x * x + y * y + z * z)
    w, x, y, z = w / length, x / length, y / length, z / length
    m00, m01, m02 = 1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)
    m10, m11, m12 = 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)
    m20, m21, m22 = 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)
    # The last axis of a join is the lowest bit of an element's number.
    first = tl.join(tl.join(m00, m11), tl.join(m02, m20))
    second = tl.join(tl.join(m01, m12), tl.join(m10, m21))
    eight = tl.reshape(tl.join(first, second), (BLOCK, 8))
    at = out + item[:, None] * 9 + tl.arange(0, 8)[None, :]
    tl.store(at, eight, (item < n)[:, None] & (tl.arange(0, 8) < 8)[None, :])
    tl.store(out + item * 9 + 8, m22, item < n)


def quaternion_rotation(quaternion, out):
    n = quaternion.shape[0]
    rotation_kernel[(triton.cdiv(n, BLOCK),)](quaternion, out, n, BLOCK=BLOCK, num_warps=4)
