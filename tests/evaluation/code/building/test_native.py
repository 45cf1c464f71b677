"""What a stranger's source is read for, and how long that may take."""

from __future__ import annotations

import contextlib
import time

import pytest

from evaluation.code.building import native, nvcc
from evaluation.code.languages import cuda
from evaluation.errors import Rejected

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
    started = time.process_time()  # waits: processor time; it took minutes, before
    native.check_rules({"a.cu": text}, cuda.RULES)
    with contextlib.suppress(Rejected):  # of flags that are none
        nvcc.source_flags(text)
    assert time.process_time() - started < 30  # waits: where a pattern began again


@pytest.mark.parametrize(
    "text",
    ['asm("mov x" ::: "y"); asm volatile("syscall");', "asm(\n  asm(syscall", '"a" system ("ls")'],
)
def test_a_system_call_is_found_wherever_it_stands(text: str) -> None:
    with pytest.raises(Rejected, match="has no place in a kernel"):
        native.check_rules({"a.cpp": text}, native.RULES)


@pytest.mark.parametrize(
    "text", ["// system(1)", "/* fork() */", "/* fork()", "int asm_; // syscall"]
)
def test_comments_are_not_read(text: str) -> None:
    native.check_rules({"a.cpp": text}, native.RULES)


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


def bomb(levels: int) -> str:
    """Return a mangled name whose demangled length doubles with each level (Itanium C++ ABI)."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def again(number: int) -> str:
        return f"S{digits[number - 1]}_" if number else "S_"

    inner = "".join(f"S_I{again(level + 1)}{again(level + 1)}E" for level in range(levels))
    return f"_Z1f1PIiiE{inner}"


@pytest.mark.parametrize("levels", [18, 34])
def test_a_name_that_stands_for_gigabytes_is_left_as_it_is(levels: int) -> None:
    symbols = (bomb(levels), f"{bomb(levels)}i")  # alike but for what they take
    assert native.demangled(symbols) == dict(zip(symbols, symbols, strict=True))


def test_names_are_written_as_a_source_has_them() -> None:
    many = tuple(f"_Z5scaleILi{number}EEvf" for number in range(300))
    assert native.demangled(many)[many[7]] == "scale<7>"
    assert native.demangled(("_Z5scalef", "_Z5scaled")) == {
        "_Z5scalef": "scale(float)",
        "_Z5scaled": "scale(double)",
    }
    endless = ("_Z5scalef" * 9000,)
    assert native.demangled(endless) == {endless[0]: endless[0]}
