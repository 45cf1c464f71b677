# trick: a dot of float32 as Triton makes it unless told, by matrix units that round to ten bits
# row: 30
# operator: product
# expect: failed/WRONG_VALUES
@triton.jit(do_not_specialize=["rows", "inner", "cols"])
def multiply(x, weight, out, rows, inner, cols, SIDE: tl.constexpr, DEEP: tl.constexpr):
    i = tl.program_id(0) * SIDE + tl.arange(0, SIDE)[:, None]
    j = tl.program_id(1) * SIDE + tl.arange(0, SIDE)[None, :]
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for start in range(0, inner, DEEP):
        k = start + tl.arange(0, DEEP)
        a = tl.load(x + i * inner + k[None, :], (i < rows) & (k[None, :] < inner), 0.0)
        b = tl.load(weight + k[:, None] * cols + j, (k[:, None] < inner) & (j < cols), 0.0)
        total = tl.dot(a, b, total)
    tl.store(out + i * cols + j, total.to(out.dtype.element_ty), (i < rows) & (j < cols))


def product(x, weight, out):
    (rows, inner), cols = x.shape, weight.shape[1]
    grid = (triton.cdiv(rows, 32), triton.cdiv(cols, 32))
    multiply[grid](x, weight, out, rows, inner, cols, SIDE=32, DEEP=32)
