"""KL divergence of softmaxes, a tile of rows a program: once over their columns for the maxima,
once for the sums, once for the losses.
"""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8


@triton.jit
def kl_divergence_kernel(
    student_ptr,
    teacher_ptr,
    loss_ptr,
    rows,
    cols,
    temperature,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)[:, None]
    offsets = tl.arange(0, WIDTH)[None, :]

    s_maxima = tl.full((HEIGHT, WIDTH), float("-inf"), tl.float32)
    t_maxima = tl.full((HEIGHT, WIDTH), float("-inf"), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        s = tl.load(student_ptr + row * cols + col, mask, other=float("-inf")).to(tl.float32)
        t = tl.load(teacher_ptr + row * cols + col, mask, other=float("-inf")).to(tl.float32)
        s /= temperature
        t /= temperature
        s_maxima = tl.maximum(s_maxima, s)
        t_maxima = tl.maximum(t_maxima, t)
    s_largest = tl.max(s_maxima, axis=1, keep_dims=True)
    t_largest = tl.max(t_maxima, axis=1, keep_dims=True)

    s_sums = tl.zeros((HEIGHT, WIDTH), tl.float32)
    t_sums = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        s = tl.load(student_ptr + row * cols + col, mask, other=float("-inf")).to(tl.float32)
        t = tl.load(teacher_ptr + row * cols + col, mask, other=float("-inf")).to(tl.float32)
        s /= temperature
        t /= temperature
        s_sums += tl.exp(s - s_largest)
        t_sums += tl.exp(t - t_largest)
    s_log_total = tl.log(tl.sum(s_sums, axis=1, keep_dims=True))
    t_log_total = tl.log(tl.sum(t_sums, axis=1, keep_dims=True))

    losses = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        s = tl.load(student_ptr + row * cols + col, mask, other=0.0).to(tl.float32) / temperature
        t = tl.load(teacher_ptr + row * cols + col, mask, other=0.0).to(tl.float32) / temperature
        log_q = s - s_largest - s_log_total
        log_p = t - t_largest - t_log_total
        losses += tl.where(mask, tl.exp(log_p) * (log_p - log_q), 0.0)
    tl.store(loss_ptr + row, tl.sum(losses, axis=1, keep_dims=True), row < rows)


def kl_divergence(student, teacher, loss, temperature):
    rows, cols = student.shape
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    kl_divergence_kernel[(triton.cdiv(rows, height),)](
        student, teacher, loss, rows, cols, temperature, HEIGHT=height, WIDTH=width, num_warps=WARPS
    )
