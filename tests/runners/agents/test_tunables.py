"""Tunables: parsed from comments and changed one at a time."""

from __future__ import annotations

import pytest

from runners.agents._parts.tunables import tunables

CPP = """\
// arena: flags -O2
// arena: tune-flags "-O2" "-O3 -march=native"
#include "rms_norm.h"
// arena: tune BLOCK 8 16 32
#define BLOCK 16
int other = BLOCK;
"""

PYTHON = """\
# arena: tune BLOCK 256 512
BLOCK = 256
# arena: tune WARPS 4 8
WARPS: tl.constexpr = 4
"""


def test_tunables_flags_come_first_and_may_have_several_words() -> None:
    flags, block = tunables(CPP)
    assert (flags.name, flags.values) == ("compiler flags", ("-O2", "-O3 -march=native"))
    assert (block.name, block.values) == ("BLOCK", ("8", "16", "32"))


def test_set_changes_only_its_line() -> None:
    flags, block = tunables(CPP)
    changed = block.set(flags.set(CPP, "-O3 -march=native"), "32")
    assert changed == CPP.replace("flags -O2\n", "flags -O3 -march=native\n").replace(
        "BLOCK 16\n", "BLOCK 32\n"
    ).replace("tune BLOCK 8 32", "tune BLOCK 8 16 32")
    assert (flags.get(changed), block.get(changed)) == ("-O3 -march=native", "32")


def test_set_python_constant_with_or_without_annotation_changes_it() -> None:
    block, warps = tunables(PYTHON)
    assert "BLOCK = 512\n" in block.set(PYTHON, "512")
    assert "WARPS: tl.constexpr = 8\n" in warps.set(PYTHON, "8")


def test_set_missing_flags_adds_a_line() -> None:
    source = '// arena: tune-flags "-O2" "-O3"\nint f();\n'
    (flags,) = tunables(source)
    assert flags.get(source) == ""
    assert flags.set(source, "-O3") == "// arena: flags -O3\n" + source


def test_tunables_without_a_definition_raise() -> None:
    with pytest.raises(ValueError, match="UNROLL is declared as tunable but never defined"):
        tunables("// arena: tune UNROLL 1 2\n")


def test_tunables_of_a_plain_source_are_empty() -> None:
    assert tunables("int main() {}\n") == ()
