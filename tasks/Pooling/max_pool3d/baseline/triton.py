"""Max pooling of volumes, one program per block of results."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def max_pool3d_kernel(
    x_ptr,
    out_ptr,
    count,
    frames,
    height,
    width,
    out_frames,
    out_height,
    out_width,
    kernel,
    stride,
    BLOCK: tl.constexpr,
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    out_col = offsets % out_width
    out_row = offsets // out_width % out_height
    out_frame = offsets // (out_width * out_height) % out_frames
    plane = offsets // (out_width * out_height) // out_frames

    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    for dt in range(kernel):
        for dy in range(kernel):
            for dx in range(kernel):
                frame = plane * frames + out_frame * stride + dt
                row = frame * height + out_row * stride + dy
                col = out_col * stride + dx
                value = tl.load(x_ptr + row * width + col, mask, other=0.0).to(tl.float32)
                largest = tl.maximum(largest, value)
    tl.store(out_ptr + offsets, largest, mask)


def max_pool3d(x, out, kernel, stride):
    count = out.numel()
    frames, height, width = x.shape[1:]
    out_frames, out_height, out_width = out.shape[1:]
    max_pool3d_kernel[(triton.cdiv(count, BLOCK),)](
        x,
        out,
        count,
        frames,
        height,
        width,
        out_frames,
        out_height,
        out_width,
        kernel,
        stride,
        BLOCK=BLOCK,
        num_warps=WARPS,
    )
