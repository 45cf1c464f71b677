"""The results of all boards in memory: parts computed from them are kept while they are read."""

from __future__ import annotations

import pytest

from arena.leaderboard.ranking import results

pytestmark = pytest.mark.django_db


def test_result_that_is_read_again_is_kept_beside_many_others():
    shown, computed = results.snapshot(), []

    def read(key):
        return results.computed(shown, key, lambda: computed.append(key))

    for number in range(2 * results.MAX_COMPUTED):
        read("plan")
        read(number)
    assert computed.count("plan") == 1
    assert len(shown.computed) == results.MAX_COMPUTED
    read(0)
    assert computed.count(0) == 2, "the one that was not read for the longest time was dropped"
