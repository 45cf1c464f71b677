"""The order of the suite names existing files."""

from __future__ import annotations

from tests.conftest import HERE, LONGEST_FIRST, ONE_BY_ONE


def test_files_named_in_the_order_of_the_suite_exist() -> None:
    assert [name for name in [*LONGEST_FIRST, *ONE_BY_ONE] if not (HERE / name).is_file()] == []
