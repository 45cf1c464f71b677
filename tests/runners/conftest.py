"""A house for the tests of what executes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runners.house import House


@pytest.fixture(scope="module")
def shared_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One for a module: workers in a hurry, idle for the rest of a session, would slow it down."""
    house = House(tmp_path_factory.mktemp("house"))
    house.furnish()
    try:
        yield house
    finally:
        house.close()


@pytest.fixture
def house(shared_house: House) -> House:
    """A house with Valkey and a worker of each kind; what an earlier test killed is back."""
    shared_house.open()
    shared_house.cancel_all()
    return shared_house
