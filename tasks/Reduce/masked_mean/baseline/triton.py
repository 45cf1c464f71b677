"""Masked mean over tokens, one program per sequence and block of channels."""

import triton
import triton.language as tl

# arena: tune TOKENS 16 32 64 128
TOKENS = 64

# arena: tune CHANNELS 16 32 64 128
CHANNELS = 32

# arena: tune WARPS 2 4 8
WARPS = 4


@triton.jit
def masked_mean_kernel(
    x_ptr, mask_ptr, out_ptr, tokens, channels, TOKENS: tl.constexpr, CHANNELS: tl.constexpr
):
    sequence = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    sums = tl.zeros((TOKENS, CHANNELS), tl.float32)
    counts = tl.zeros((TOKENS, 1), tl.float32)
    for first in range(0, tokens, TOKENS):
        token = first + tl.arange(0, TOKENS)[:, None]
        kept = tl.load(mask_ptr + sequence * tokens + token, token < tokens, other=0)
        inside = (token < tokens) & (channel < channels)
        place = (sequence * tokens + token) * channels + channel
        x = tl.load(x_ptr + place, inside, other=0.0).to(tl.float32)
        sums += tl.where(kept, x, 0.0)
        counts += tl.where(kept, 1.0, 0.0)
    total = tl.sum(sums, axis=0, keep_dims=True)
    count = tl.sum(counts, axis=0, keep_dims=True)
    mean = total / tl.maximum(count, 1.0)
    tl.store(out_ptr + sequence * channels + channel, mean, channel < channels)


def masked_mean(x, mask, out):
    sequences, tokens, channels = x.shape
    masked_mean_kernel[(sequences, triton.cdiv(channels, CHANNELS))](
        x, mask, out, tokens, channels, TOKENS=TOKENS, CHANNELS=CHANNELS, num_warps=WARPS
    )
