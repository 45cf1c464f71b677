"""Tests of the categories of imported problems."""

from __future__ import annotations

import pytest

from evaluation.importers.categories import category_of


@pytest.mark.parametrize(
    ("words", "category"),
    [
        ("ReLU", "Activation"),
        ("LU decomposition", "LinearAlgebra"),
        ("MinGPTNewGelu", "Activation"),
        ("ScaledDotProductAttention", "Fusion"),
        ("Matmul_with_diagonal_matrices", "MatrixMultiply"),
        ("LayerNorm", "Normalization"),
        ("Average_Pooling_2D", "Pooling"),
        ("Max reduction over a dimension", "Reduce"),
        ("cumsum_exclusive", "Reduce"),
        ("prefixsum", "Reduce"),
        ("gated deltanet chunk fwd h", "Fusion"),
        ("MSELoss", "Loss"),
        ("logical_and", "Math"),
    ],
)
def test_category_is_that_of_the_first_known_word(words, category):
    assert category_of(words) == category
