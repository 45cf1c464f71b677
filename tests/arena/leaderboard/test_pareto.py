"""Tests of the Pareto front, which boards and pages of tasks share."""

from __future__ import annotations

from arena.leaderboard.pareto import pareto_front


def front(*places: tuple[float, float]) -> list[tuple[float, float]]:
    return [place for place, best in pareto_front(places, lambda place: place) if best]


def test_front_has_those_that_none_beats_in_both_the_cheapest_first():
    assert front((4.0, 2.9), (2.0, 3.0), (0.5, 1.4), (0.1, 1.5)) == [(0.1, 1.5), (2.0, 3.0)]


def test_front_has_the_fastest_of_those_that_spend_the_same():
    assert front((1.0, 1.2), (1.0, 1.5)) == [(1.0, 1.5)]


def test_front_has_one_of_equal_ones_and_none_of_nothing():
    assert front((1.0, 1.2), (1.0, 1.2)) == [(1.0, 1.2)]
    assert front() == []


def test_those_off_the_front_are_returned_too():
    assert pareto_front("ba", lambda name: (ord(name), 1.0)) == [("a", True), ("b", False)]
