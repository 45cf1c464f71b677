"""What a stranger's source is read for, and how long that may take."""

from __future__ import annotations

import contextlib
import time

import pytest

from evaluation.building import native, nvcc
from evaluation.errors import Rejected
from evaluation.languages import cuda

COUNT = 100_000


@pytest.mark.parametrize(
    "text",
    [
        "\n" * COUNT,
        "/*a" * COUNT,
        "asm " * COUNT,
        'asm("' * COUNT,
        "asm" + " " * COUNT,
        '"\\"' * COUNT,
        '"\\' * COUNT,
        "'\"" * COUNT,
        "# " * COUNT,
        "// arena: flags " * COUNT,
    ],
    ids=lambda text: repr(text[:6]),
)
def test_to_read_a_source_takes_a_time_that_grows_with_its_length_alone(text: str) -> None:
    started = time.process_time()
    native.refuse_breaches({"a.cu": text}, cuda.BREACHES)
    with contextlib.suppress(Rejected):  # of flags that are none
        nvcc.source_flags(text)
    assert time.process_time() - started < 2  # it took minutes, where a pattern began again


@pytest.mark.parametrize(
    "text",
    ['asm("mov x" ::: "y"); asm volatile("syscall");', "asm(\n  asm(syscall", '"a" system ("ls")'],
)
def test_a_system_call_is_found_wherever_it_stands(text: str) -> None:
    with pytest.raises(Rejected, match="has no place in a kernel"):
        native.refuse_breaches({"a.cpp": text}, native.BREACHES)


@pytest.mark.parametrize(
    "text", ["// system(1)", "/* fork() */", "/* fork()", "int asm_; // syscall"]
)
def test_comments_are_not_read(text: str) -> None:
    native.refuse_breaches({"a.cpp": text}, native.BREACHES)


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ('a = "//"; // b', 'a = "//"; '),
        ("x /* 1\n2 */ y", "x \n y"),
        ("n = 1'000; // of 2", "n = 1'000; "),
        ("'\"' /* c */ '\\''", "'\"'  '\\''"),
        ('"open\nint y; // z', '"open\nint y; '),
    ],
)
def test_strings_and_lines_stay_where_comments_go(source: str, kept: str) -> None:
    assert native.without_comments(source) == kept
