# honest: a tile of pairs of one row a program; a float32 product is three of TF32
import torch
import triton
import triton.language as tl

TILE = 32
STEP = 32


@triton.jit
def rounded(x):
    """Round float32 to the eleven bits of TF32."""
    return ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


@triton.jit
def parts_of(x):
    """Split float32 into two numbers of TF32, which miss half a unit of its last place at most."""
    first = rounded(x)
    return first, rounded(x - first)


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
    STEP: tl.constexpr, TILE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    # Tiles on and below the diagonal, by number.
    tile, down = tl.program_id(1), 0
    while tile > down:
        down += 1
        tile -= down
    i, j = down * TILE + tl.arange(0, TILE), tile * TILE + tl.arange(0, TILE)
    products = tl.zeros((TILE, TILE), tl.float32)
    for begin in range(0, dim, STEP):
        d = begin + tl.arange(0, STEP)
        first = features_of(dense, sparse, row, i, d, features, dim)
        second = features_of(dense, sparse, row, j, d, features, dim)
        if WIDE:
            a1, a2 = parts_of(first)
            b1, b2 = parts_of(second)
            b1, b2 = tl.trans(b1), tl.trans(b2)
            # The smallest terms come first.
            some = tl.dot(a2, b1, input_precision="tf32")
            some = tl.dot(a1, b2, some, input_precision="tf32")
            products += tl.dot(a1, b1, some, input_precision="tf32")
        else:
            products = tl.dot(first, tl.trans(second), products, input_precision="tf32")
        if tl.program_id(1) == 0:
            copied = tl.load(dense + row * dim + d, d < dim)
            tl.store(out + row * width + d, copied, d < dim)
    pair = dim + (i * (i - 1) // 2)[:, None] + j[None, :]
    wanted = (i <= features)[:, None] & (j[None, :] < i[:, None])
    tl.store(out + row * width + pair, products, wanted)


def dlrm_dot_interaction(dense, sparse, out):
    batch, features, dim = sparse.shape
    tiles = triton.cdiv(features + 1, TILE)
    padded = max(16, triton.next_power_of_2(dim))
    wide = dense.dtype == torch.float32
    interaction_kernel[(batch, tiles * (tiles + 1) // 2)](
        dense, sparse, out, features, dim, out.shape[1],
        STEP=min(STEP, padded), TILE=TILE, WIDE=wide, num_warps=2,
    )  # fmt: skip
