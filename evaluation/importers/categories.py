"""Categories of imported problems, by words of their names."""

from __future__ import annotations

import re

_WORDS = (
    ("Loss", "loss kldiv hinge"),
    ("Fusion", "attention fused deltanet trimul"),
    ("Normalization", "norm"),
    ("Convolution", "conv"),
    ("Pooling", "pool"),
    ("Quantization", "quant int8 fp8"),
    ("MatrixMultiply", "matmul gemm bmm matrix mm mv dot linear"),
    ("Activation", "relu gelu selu elu softmax sigmoid tanh swish softplus softsign silu mish"),
    ("LinearAlgebra", "cholesky lu qr svd eig solve inverse det"),
    ("Random", "rand dropout bernoulli"),
    ("Optimizer", "adam sgd optimizer"),
    ("Reduce", "reduction sum mean max min argmax argmin cumsum cumprod prod prefixsum vectorsum"),
    ("Index", "index gather scatter embedding topk sort permute"),
    ("SpatialOps", "interpolate grid upsample pad pixel"),
)
DEFAULT = "Math"
SHORT = 3
"""Letters of a word that must stand alone, or `lu` would be found in ReLU."""


def category_of(words: str) -> str:
    """Return the first category of the list above of which a word occurs."""
    text = words.lower()
    for category, known in _WORDS:
        if any(_occurs(word, text) for word in known.split()):
            return category
    return DEFAULT


def _occurs(word: str, text: str) -> bool:
    if len(word) > SHORT:
        return word in text
    return re.search(rf"(?<![a-z]){word}(?![a-z])", text) is not None
