# honest: tiles of the result taken in groups of rows, so that neighbours share what they load
import triton
import triton.language as tl

TILE = 64
DEPTH = 32
GROUP = 8


@triton.jit
def matmul_kernel(a, b, out, m, n, k, TILE: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr):
    tiles_n = tl.cdiv(n, TILE)
    group = tl.program_id(0) // (GROUP * tiles_n)
    height = tl.minimum(tl.cdiv(m, TILE) - group * GROUP, GROUP)
    within = tl.program_id(0) % (GROUP * tiles_n)
    rows = ((group * GROUP + within % height) * TILE + tl.arange(0, TILE)).to(tl.int64)
    cols = ((within // height) * TILE + tl.arange(0, TILE)).to(tl.int64)
    depth = tl.arange(0, DEPTH).to(tl.int64)

    left = a + rows[:, None] * k + depth[None, :]
    right = b + depth[:, None] * n + cols[None, :]
    sums = tl.zeros((TILE, TILE), tl.float32)
    for first in range(0, k, DEPTH):
        inside = first + depth < k
        x = tl.load(left + first, (rows < m)[:, None] & inside[None, :], other=0.0)
        y = tl.load(right, inside[:, None] & (cols < n)[None, :], other=0.0)
        sums += tl.dot(x, y, input_precision="ieee")
        right += DEPTH * n
    mask = (rows < m)[:, None] & (cols < n)[None, :]
    tl.store(out + rows[:, None] * n + cols[None, :], sums, mask)


def matmul(a, b, out):
    (m, k), n = a.shape, b.shape[1]
    grid = (triton.cdiv(m, TILE) * triton.cdiv(n, TILE),)
    matmul_kernel[grid](a, b, out, m, n, k, TILE=TILE, DEPTH=DEPTH, GROUP=GROUP)
