# honest: a tile of pairs of one row a program, stored where the row wants them
import torch
import triton
import triton.language as tl

TILE = 32


@triton.jit
def features_of(dense, sparse, row, feature, d, features, dim):
    """Return features of a row, of which the dense one is the first."""
    inside = ((feature > 0) & (feature <= features))[:, None] & (d < dim)[None, :]
    at = (row * features + feature - 1)[:, None] * dim + d[None, :]
    found = tl.load(sparse + at, inside, other=0.0)
    is_dense = (feature == 0)[:, None] & (d < dim)[None, :]
    own = tl.load(dense + row * dim + feature[:, None] * 0 + d[None, :], is_dense, other=0.0)
    # Numbers of 16 bits are exact in TF32.
    return tl.where(is_dense, own, found).to(tl.float32)


@triton.jit
def interaction_kernel(
    dense, sparse, out, features, dim, width,
    DIM: tl.constexpr, TILE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    # Tiles on and below the diagonal, by number.
    tile, down = tl.program_id(1), 0
    while tile > down:
        down += 1
        tile -= down
    i, j = down * TILE + tl.arange(0, TILE), tile * TILE + tl.arange(0, TILE)
    d = tl.arange(0, DIM)
    first = features_of(dense, sparse, row, i, d, features, dim)
    second = features_of(dense, sparse, row, j, d, features, dim)
    products = tl.dot(first, tl.trans(second), input_precision=PRECISION)
    pair = dim + (i * (i - 1) // 2)[:, None] + j[None, :]
    wanted = (i <= features)[:, None] & (j[None, :] < i[:, None])
    tl.store(out + row * width + pair, products, wanted)
    if tl.program_id(1) == 0:
        copied = tl.load(dense + row * dim + d, d < dim)
        tl.store(out + row * width + d, copied, d < dim)


def dlrm_dot_interaction(dense, sparse, out):
    batch, features, dim = sparse.shape
    tiles = triton.cdiv(features + 1, TILE)
    interaction_kernel[(batch, tiles * (tiles + 1) // 2)](
        dense, sparse, out, features, dim, out.shape[1],
        DIM=max(16, triton.next_power_of_2(dim)), TILE=TILE,
        PRECISION="ieee" if dense.dtype == torch.float32 else "tf32", num_warps=2,
    )  # fmt: skip
