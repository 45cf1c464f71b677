"""The suite is sorted by names of its files, which must be there."""

from __future__ import annotations

from tests.conftest import HERE, LONGEST_FIRST


def test_the_files_that_are_begun_first_are_there() -> None:
    assert [name for name in LONGEST_FIRST if not (HERE / name).is_file()] == []
