# honest: parts of a row find their k-th largest element by halving, and keep what is above
import torch
import triton
import triton.language as tl

CHUNK = 4096
LOWEST = tl.constexpr(-(2**31))


@triton.jit
def select(keys, inside, k):
    """Return which `k` lanes have the largest keys, the first of equal ones, and their places.

    The k-th largest is found by halving the interval between the extreme keys.
    """
    low = tl.min(tl.where(inside, keys, 2147483647)).to(tl.int64)
    high = tl.max(keys).to(tl.int64)
    low = tl.where(tl.sum(inside.to(tl.int32)) < k, LOWEST, low)
    while low < high:
        middle = low + (high - low + 1) // 2
        count = tl.sum((keys >= middle.to(tl.int32)).to(tl.int32))
        low = tl.where(count >= k, middle, low)
        high = tl.where(count == k, middle, tl.where(count > k, high, middle - 1))
    limit = low.to(tl.int32)
    above = (keys > limit).to(tl.int32)
    equal = (keys == limit).to(tl.int32)
    wanted = k - tl.sum(above)
    seen = tl.cumsum(above * 65536 + equal, axis=0)
    ties = seen % 65536
    chosen = (above != 0) | ((equal != 0) & (ties <= wanted))
    return chosen, seen // 65536 + tl.minimum(ties, wanted) - 1


@triton.jit
def part_kernel(x, keys_of, cols_of, cols, k, CHUNK: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    col = part * CHUNK + tl.arange(0, CHUNK)
    inside = col < cols
    values = tl.load(x + row * cols + col, inside, other=0.0).to(tl.float32)
    # Order of floats as order of integers; -0 counts as 0.
    bits = (values + 0.0).to(tl.int32, bitcast=True)
    keys = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    keys = tl.where(inside, keys, LOWEST)
    chosen, place = select(keys, inside, k)
    at = (row * tl.num_programs(1) + part) * k + place
    tl.store(keys_of + at, keys, chosen)
    tl.store(cols_of + at, col, chosen)


@triton.jit
def merge_kernel(keys_of, cols_of, best_keys, best_cols, count, k, LANES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    inside = lane < count
    keys = tl.load(keys_of + row * count + lane, inside, other=LOWEST)
    col = tl.load(cols_of + row * count + lane, inside, other=0)
    chosen, place = select(keys, inside, k)
    tl.store(best_keys + row * k + place, keys, chosen)
    tl.store(best_cols + row * k + place, col, chosen)


@triton.jit
def sort_kernel(x, keys_of, cols_of, values, indices, cols, k, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH)
    inside = lane < k
    keys = tl.load(keys_of + row * k + lane, inside, other=LOWEST).to(tl.int64)
    col = tl.load(cols_of + row * k + lane, inside, other=2147483647)
    ordered = tl.sort(keys * 4294967296 + (2147483647 - col).to(tl.int64), descending=True)
    col = 2147483647 - (ordered & 4294967295)
    found = tl.load(x + row * cols + col, inside, other=0.0)
    tl.store(values + row * k + lane, found, inside)
    tl.store(indices + row * k + lane, col, inside)


def top_k(x, values, indices, k):
    rows, cols = x.shape
    chunk = max(2, triton.next_power_of_2(k), min(CHUNK, triton.next_power_of_2(cols)))
    parts = triton.cdiv(cols, chunk)
    shape = (2, rows, parts * k)
    keys, places = torch.empty(shape, dtype=torch.int32, device=x.device)
    warps = max(1, min(8, chunk // 512))
    part_kernel[(rows, parts)](x, keys, places, cols, k, CHUNK=chunk, num_warps=warps)
    if parts > 1:
        lanes = triton.next_power_of_2(parts * k)
        best, best_places = torch.empty((2, rows, k), dtype=torch.int32, device=x.device)
        warps = max(1, min(32, lanes // 512))
        merge_kernel[(rows,)](
            keys, places, best, best_places, parts * k, k, LANES=lanes, num_warps=warps
        )
        keys, places = best, best_places
    width = max(2, triton.next_power_of_2(k))
    sort_kernel[(rows,)](x, keys, places, values, indices, cols, k, WIDTH=width, num_warps=1)
