# honest: a KernelBench module that launches a Triton kernel and returns a new tensor
import torch
import triton
import triton.language as tl


@triton.jit
def centre(x, out, cols, scale, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    places = tl.arange(0, BLOCK)
    values = tl.load(x + start + places, places < cols, 0.0)
    mean = tl.sum(values, 0) / cols
    tl.store(out + start + places, (values - mean) * scale, places < cols)


class ModelNew(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        centre[(rows,)](x, out, cols, self.scale, BLOCK=triton.next_power_of_2(cols))
        return out
