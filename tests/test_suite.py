"""The order of the suite names existing files."""

from __future__ import annotations

from tests.conftest import HERE, LONGEST_FIRST


def test_longest_first_files_exist() -> None:
    assert [name for name in LONGEST_FIRST if not (HERE / name).is_file()] == []
