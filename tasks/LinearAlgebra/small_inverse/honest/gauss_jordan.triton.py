# honest: Gauss-Jordan elimination in place, many matrices a program
import triton
import triton.language as tl

ELEMENTS = 1024


@triton.jit
def inverse_kernel(
    x, inverse, determinant, batch, SIZE: tl.constexpr, PADDED: tl.constexpr, COUNT: tl.constexpr
):
    matrix = tl.program_id(0).to(tl.int64) * COUNT + tl.arange(0, COUNT)
    i = tl.arange(0, PADDED)[None, :, None]
    j = tl.arange(0, PADDED)[None, None, :]
    at = matrix[:, None, None] * (SIZE * SIZE) + i * SIZE + j
    inside = (matrix < batch)[:, None, None] & (i < SIZE) & (j < SIZE)
    m = tl.load(x + at, inside, other=0.0) + tl.where(i == j, 1.0, 0.0)
    product = tl.full((COUNT,), 1.0, tl.float32)
    for p in tl.static_range(SIZE):
        column = tl.sum(tl.where(j == p, m, 0.0), axis=2)[:, :, None]
        row = tl.sum(tl.where(i == p, m, 0.0), axis=1)[:, None, :]
        pivot = tl.sum(tl.where(i == p, column, 0.0), axis=1)[:, None, :]
        product *= tl.reshape(pivot, (COUNT,))
        scaled = tl.where(j == p, 1.0, row) / pivot
        kept = tl.where(j == p, 0.0, m)
        m = tl.where(i == p, scaled, kept - column * scaled)
    tl.store(inverse + at, m, inside)
    tl.store(determinant + matrix, product, matrix < batch)


def small_inverse(x, inverse, determinant):
    batch, size = x.shape[0], x.shape[1]
    padded = triton.next_power_of_2(size)
    count = max(1, ELEMENTS // (padded * padded))
    inverse_kernel[(triton.cdiv(batch, count),)](
        x, inverse, determinant, batch, SIZE=size, PADDED=padded, COUNT=count, num_warps=4
    )
