"""Tests of the part of a file that the judge runs, in the form of GPU MODE."""

from __future__ import annotations

import pytest

from evaluation.importers.reference_part import check_uses_reference, reference_part

SOURCE = '''\
import os
import math
from utils import DeterministicContext, make_match_reference
from task import input_t, output_t

SCALE = 0.5


class DisableCuDNNTF32:
    """Changes flags of the whole process."""


def helper(x):
    return x * SCALE  # a comment inside


def unused():
    return os.getcwd()


def ref_kernel(data: input_t) -> output_t:
    with DeterministicContext(), DisableCuDNNTF32():
        return helper(data)


def generate_input(size: int):
    return math.sqrt(size)


check_implementation = make_match_reference(ref_kernel)

if __name__ == "__main__":
    print(unused())
'''


def test_part_has_what_the_reference_and_the_generator_use():
    part = reference_part(SOURCE)
    assert "def helper(x):\n    return x * SCALE  # a comment inside" in part
    assert "SCALE = 0.5" in part and "import math" in part
    for left_out in ("unused", "os", "make_match", "__main__", "utils", "class Disable"):
        assert left_out not in part, left_out


def test_names_of_the_suite_are_replaced():
    namespace: dict = {}
    exec(reference_part(SOURCE), namespace)
    assert namespace["ref_kernel"](4) == 2


def test_file_with_wrong_syntax_is_returned_whole():
    assert reference_part("def ref_kernel(:\n") == "def ref_kernel(:\n"


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("", True),
        ("check_implementation = same(ref_kernel)", True),
        ("def check_implementation(data, output):\n    return output == ref_kernel(data)", True),
        ("def check_implementation(data, output):\n    return output @ output.T == data", False),
    ],
)
def test_check_that_uses_the_reference_is_known(check, expected):
    assert check_uses_reference(f"def ref_kernel(data):\n    pass\n\n\n{check}\n") is expected
