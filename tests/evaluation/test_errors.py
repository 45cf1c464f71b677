"""The line of a file that led to an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.errors import line_of
from evaluation.tasks.defaults import load_reference

SOURCE = """
def reference(x):
    return half(x)

def half(x):
    return x / 0

def exact(x): ...
def magnitude(x): ...
def reduction(case): ...
"""


def test_error_names_the_innermost_line_of_the_file() -> None:
    path = Path("scaled/reference.py")
    reference = load_reference(SOURCE, path, ()).reference
    with pytest.raises(ZeroDivisionError) as caught:
        reference(1)
    assert line_of(caught.value, path) == "line 6: ZeroDivisionError: division by zero"
    assert line_of(caught.value, Path("other.py")) == ""
