"""Attention of RWKV-4 over a prompt: one kernel for the shifts, and one for the sum over time.

The library has a CUDA kernel for the sum, which it loads from the network. Without it, each step is
some twenty launches.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def mix(x, of_key, of_value, of_gate, key, value, gate, length, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start = row.to(tl.int64) * cols
    places = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = places < cols
    now = tl.load(x + start + places, mask=inside, other=0.0).to(tl.float32)
    earlier = inside & (row % length > 0)  # the first token of a prompt has none before it
    before = tl.load(x + start - cols + places, mask=earlier, other=0.0).to(tl.float32)
    for_key = tl.load(of_key + places, mask=inside, other=0.0).to(tl.float32)
    for_value = tl.load(of_value + places, mask=inside, other=0.0).to(tl.float32)
    for_gate = tl.load(of_gate + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(key + start + places, before + (now - before) * for_key, mask=inside)
    tl.store(value + start + places, before + (now - before) * for_value, mask=inside)
    tl.store(gate + start + places, before + (now - before) * for_gate, mask=inside)


@triton.jit
def weighted_sum(decay, first, key, value, gate, out, length, cols, BLOCK: tl.constexpr):
    places = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = places < cols
    fall = -tl.exp(tl.load(decay + places, mask=inside, other=0.0).to(tl.float32))
    bonus = tl.load(first + places, mask=inside, other=0.0).to(tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    weights = tl.zeros([BLOCK], tl.float32)
    largest = tl.full([BLOCK], -1e38, tl.float32)  # of the exponents so far
    at = tl.program_id(0).to(tl.int64) * length * cols + places
    for _ in range(length):
        k = tl.load(key + at, mask=inside, other=0.0).to(tl.float32)
        v = tl.load(value + at, mask=inside, other=0.0).to(tl.float32)
        r = tl.load(gate + at, mask=inside, other=0.0).to(tl.float32)
        top = tl.maximum(largest, k + bonus)
        kept, added = tl.exp(largest - top), tl.exp(k + bonus - top)
        result = (kept * total + added * v) / (kept * weights + added)
        tl.store(out + at, tl.sigmoid(r) * result, mask=inside)
        top = tl.maximum(largest + fall, k)
        kept, added = tl.exp(largest + fall - top), tl.exp(k - top)
        total = kept * total + added * v
        weights = kept * weights + added
        largest = top
        at += cols


class ModelNew(torch.nn.Module):
    def __init__(self, config, layer_id=0):
        super().__init__()
        hidden = config.hidden_size
        inner = config.attention_hidden_size or hidden
        self.time_decay = torch.nn.Parameter(torch.empty(inner))
        self.time_first = torch.nn.Parameter(torch.empty(inner))
        self.time_mix_key = torch.nn.Parameter(torch.empty(1, 1, hidden))
        self.time_mix_value = torch.nn.Parameter(torch.empty(1, 1, hidden))
        self.time_mix_receptance = torch.nn.Parameter(torch.empty(1, 1, hidden))
        self.key = torch.nn.Linear(hidden, inner, bias=False)
        self.value = torch.nn.Linear(hidden, inner, bias=False)
        self.receptance = torch.nn.Linear(hidden, inner, bias=False)
        self.output = torch.nn.Linear(inner, hidden, bias=False)

    def forward(self, hidden, state=None, use_cache=False):
        x = hidden.contiguous()
        batch, length, cols = x.shape
        key, value, gate = (torch.empty_like(x) for _ in range(3))
        mix[(batch * length, triton.cdiv(cols, 1024))](
            x, self.time_mix_key, self.time_mix_value, self.time_mix_receptance,
            key, value, gate, length, cols, BLOCK=1024,
        )  # fmt: skip
        key, value, gate = self.key(key), self.value(value), self.receptance(gate)
        out = torch.empty_like(key)
        cols = key.shape[-1]
        weighted_sum[(batch, triton.cdiv(cols, 32))](
            self.time_decay, self.time_first, key, value, gate, out, length, cols, BLOCK=32,
            num_warps=1,
        )  # fmt: skip
        return self.output(out), state
