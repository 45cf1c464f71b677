"""Houses for the tests of what executes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runners.house import House


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("template") / "arena.sqlite3"


def furnished(home: Path, template: Path) -> Iterator[House]:
    home.mkdir()
    house = House(home)
    house.furnish(template)
    try:
        yield house
    finally:
        house.close()


@pytest.fixture
def house(tmp_path: Path, template: Path) -> Iterator[House]:
    """A house of the test's own, with nothing running in it yet; what it starts is ended."""
    yield from furnished(tmp_path / "home", template)


@pytest.fixture(scope="session")
def open_house(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[House]:
    """A house with Valkey and a worker of each kind, shared by tests that break nothing in it."""
    for house in furnished(tmp_path_factory.mktemp("open") / "home", template):
        house.open()
        yield house
