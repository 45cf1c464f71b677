"""Loading of a source in PyTorch."""

from __future__ import annotations

import pytest

from evaluation.sandboxed.kernels.torch import IMPORTS_TRITON


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import torch\nimport torch.nn, triton\n", True),
        ("def made():\n    from triton import language as tl\n", True),
        ("import triton.language as tl\n", True),
        ("# This is slower than triton.\nimport torch\n", False),
        ("import tritonclient\n", False),
    ],
)
def test_import_of_triton_is_found_by_its_line(source: str, found: bool) -> None:
    assert bool(IMPORTS_TRITON.search(source)) is found
