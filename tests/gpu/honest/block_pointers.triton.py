# honest: several rows at a time through block pointers that check their bounds
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["rows", "cols"])
def centre(x, out, rows, cols, scale, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * ROWS
    source = tl.make_block_ptr(x, (rows, cols), (cols, 1), (first, 0), (ROWS, BLOCK), (1, 0))
    target = tl.make_block_ptr(out, (rows, cols), (cols, 1), (first, 0), (ROWS, BLOCK), (1, 0))
    values = tl.load(source, boundary_check=(0, 1), padding_option="zero")
    mean = tl.sum(values, 1) / cols
    tl.store(target, (values - mean[:, None]) * scale, boundary_check=(0, 1))


def centred(x, out, scale):
    rows, cols = x.shape
    centre[(triton.cdiv(rows, 2),)](x, out, rows, cols, scale, ROWS=2, BLOCK=1024)
