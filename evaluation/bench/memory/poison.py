"""Poison: secret values that fill outputs before a launch, to find elements it did not write."""

from __future__ import annotations

import torch

from evaluation.bench.memory.layout import Rows

_WORD = torch.int64
_EXPONENT = {
    torch.float16: 0x7C00,
    torch.bfloat16: 0x7F80,
    torch.float32: 0x7F80_0000,
    torch.float64: 0x7FF0 << 48,
}
"""Bits of the exponent by dtype: all ones in a NaN."""


def poison(tensor: torch.Tensor, secret: int, rows: Rows = slice(None)) -> None:
    """Fill outputs with a value that no right output holds: a secret NaN or integer.

    `tensor` has the shape [elements], or [slots, elements], of which `rows` selects some.
    """
    bits, value = bits_of(tensor), poison_bits(tensor.dtype, secret)
    size = bits.dtype.itemsize
    pace = _WORD.itemsize // size
    if all(n % pace == 0 for n in (bits.shape[-1], *bits.stride()[:-1], bits.storage_offset())):
        # Written as words of eight bytes, which takes a third of the time on a GPU.
        word = value.to_bytes(size, "little", signed=True) * pace
        bits, value = bits.view(_WORD), int.from_bytes(word, "little", signed=True)
    if isinstance(rows, torch.Tensor):
        bits[rows] = value
    else:
        bits[rows].fill_(value)


BYTES = (torch.int8, torch.uint8)
"""Dtypes of which every value can be right."""
MIN_BYTES = 8


def unwritten(tensor: torch.Tensor, secret: int) -> torch.Tensor:
    """Return where an output still holds its poison (bool, the tensor's shape).

    Of bytes, which can hold the poison by chance, only a whole last dimension counts.
    """
    held = bits_of(tensor) == poison_bits(tensor.dtype, secret)
    if tensor.dtype not in BYTES:
        return held
    if not tensor.dim() or tensor.shape[-1] < MIN_BYTES:
        return torch.zeros_like(held)
    return held & held.all(-1, keepdim=True)


def poison_bits(dtype: torch.dtype, secret: int) -> int:
    """Return the bit pattern of the poison: an exponent of all ones, and a secret payload."""
    mask = (1 << (8 * dtype.itemsize - 1)) - 1
    if not dtype.is_floating_point:
        return -1 - (secret & (mask >> 1))
    if dtype.itemsize == 1:
        return mask  # a NaN of both kinds of float8
    exponent = _EXPONENT[dtype]
    return exponent | (secret & (mask ^ exponent)) | 1


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same memory as integers, so that NaN compares like any other value."""
    if tensor.dtype is torch.bool or tensor.dtype is torch.uint8:
        return tensor.view(torch.int8)
    if not tensor.dtype.is_floating_point:
        return tensor
    kind = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.dtype.itemsize]
    return tensor.view(kind)
