# honest: many small filters a program; columns of the first product are taken from registers
import triton
import triton.language as tl

ELEMENTS = 1024


@triton.jit
def update_kernel(
    transition, covariance, noise, out, batch,
    SIZE: tl.constexpr, PADDED: tl.constexpr, COUNT: tl.constexpr,
):  # fmt: skip
    item = (tl.program_id(0).to(tl.int64) * COUNT + tl.arange(0, COUNT))[:, None, None]
    start = item * (SIZE * SIZE)
    i = tl.arange(0, PADDED)[None, :, None]
    j = tl.arange(0, PADDED)[None, None, :]
    inside = (item < batch) & (i < SIZE) & (j < SIZE)
    rows = (item < batch) & (i < SIZE)
    cols = (item < batch) & (j < SIZE)
    moved = tl.zeros((COUNT, PADDED, PADDED), tl.float32)
    for k in tl.static_range(SIZE):
        left = tl.load(transition + start + i * SIZE + k, rows, other=0.0)
        right = tl.load(covariance + start + k * SIZE + j, cols, other=0.0)
        moved += left * right
    total = tl.load(noise + start + i * SIZE + j, inside, other=0.0)
    for k in tl.static_range(SIZE):
        left = tl.sum(tl.where(j == k, moved, 0.0), axis=2)[:, :, None]
        right = tl.load(transition + start + j * SIZE + k, cols, other=0.0)
        total += left * right
    tl.store(out + start + i * SIZE + j, total, inside)


@triton.jit
def wide_kernel(transition, covariance, noise, out, SIZE: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * (SIZE * SIZE)
    at = start + tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    step = tl.load(transition + at)
    moved = tl.dot(step, tl.load(covariance + at), input_precision="ieee")
    moved = tl.dot(moved, tl.trans(step), input_precision="ieee")
    tl.store(out + at, moved + tl.load(noise + at))


def covariance_update(transition, covariance, noise, out):
    batch, size = out.shape[0], out.shape[1]
    if size == 32:
        wide_kernel[(batch,)](transition, covariance, noise, out, SIZE=size, num_warps=2)
        return
    padded = triton.next_power_of_2(size)
    count = ELEMENTS // (padded * padded)
    update_kernel[(triton.cdiv(batch, count),)](
        transition, covariance, noise, out, batch,
        SIZE=size, PADDED=padded, COUNT=count, num_warps=4,
    )  # fmt: skip
