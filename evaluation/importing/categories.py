"""Categories of imported problems, by words of their names."""

from __future__ import annotations

import re

_WORDS = (
    ("Loss", "loss kldiv hinge"),
    ("Normalization", "norm batchnorm layernorm rmsnorm instancenorm groupnorm"),
    ("Convolution", "conv convolution"),
    ("Pooling", "pool pooling"),
    ("Quantization", "quant quantize dequant int8 fp8"),
    ("MatrixMultiply", "matmul gemm bmm matrix mm mv dot linear"),
    ("Fusion", "attention fused"),
    ("LinearAlgebra", "cholesky lu qr svd eig solve inverse det"),
    ("Random", "rand dropout bernoulli"),
    ("Optimizer", "adam sgd optimizer"),
    ("Activation", "relu gelu selu elu softmax sigmoid tanh swish softplus softsign silu mish"),
    ("Reduce", "reduction sum mean max min argmax argmin cumsum cumprod prod"),
    ("Index", "index gather scatter embedding topk sort permute"),
    ("SpatialOps", "interpolate grid upsample pad pixel"),
)
DEFAULT = "Math"


def category_of(words: str) -> str:
    """Return the category whose words occur first in the list above."""
    text = words.lower()
    for category, known in _WORDS:
        if any(re.search(rf"{word}|^{word}", text) for word in known.split()):
            return category
    return DEFAULT
