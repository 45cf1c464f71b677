"""The selection is the same each time, and balanced wherever it is cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import permutations

from evaluation.importers.generations.generation import Claim, Generation
from evaluation.importers.generations.selection import (
    DEFAULT,
    interleaved,
    read_selection,
    select,
)

GROUPS = {
    "claims": [
        {"collection": "x", "count": 5},
        {"collection": "y", "model": "best", "count": 5},
    ],
    "models": [{"level": 1, "equal": ["a", "b"], "also": ["c"]}],
    "samples": [{"model": "s", "level": 1, "problems": 2, "samples": 3}],
}


def generation(
    collection: str, model: str, problem: int, sample: int = 0, speedup: float | None = None
) -> Generation:
    text = f"{collection} {model} {problem} {sample}"
    claim = Claim(True, speedup)
    return Generation(collection, model, "k", 1, problem, sample, text, text, claim)


def published() -> Iterator[Generation]:
    for problem in range(1, 11):
        yield generation("x", "any", problem, speedup=problem)
        yield generation("y", "best", problem, speedup=100 - problem)
        yield generation("y", "worse", problem, speedup=1000)
        for model in "abc":
            if (model, problem) != ("b", 4):
                yield generation("m", model, problem)
        for sample in range(3 if problem % 2 else 2):
            yield generation("m", "s", problem, sample)


def test_largest_claims_of_each_collection_come_in_turn() -> None:
    selected = select(GROUPS, list(published()))

    claims = [each for each in selected if each.collection in "xy"]
    assert [(each.collection, each.claim.speedup) for each in claims[:4]] == [
        ("x", 10),
        ("y", 99),
        ("x", 9),
        ("y", 98),
    ]
    assert Counter(each.model for each in claims) == {"any": 5, "best": 5}


def test_models_come_problem_by_problem_and_incomplete_problems_last() -> None:
    selected = select(GROUPS, list(published()))

    models = [each for each in selected if each.model in "abc"]
    assert [each.model for each in models[:27]] == ["a", "b", "c"] * 9
    assert [(each.model, each.problem) for each in models[27:]] == [("a", 4), ("c", 4)]


def test_samples_come_last_and_whole() -> None:
    selected = select(GROUPS, list(published()))

    samples = selected[-6:]
    assert {each.model for each in samples} == {"s"}
    assert [each.sample for each in samples] == [0, 1, 2] * 2
    assert all(each.problem % 2 for each in samples)


def test_selection_does_not_depend_on_the_order_of_what_is_found() -> None:
    found = list(published())
    parts = found[:20], found[20:40], found[40:]

    orders = {
        tuple(each.key for each in select(GROUPS, [g for part in order for g in part]))
        for order in permutations(parts)
    }

    assert len(orders) == 1


def test_any_cut_has_the_same_share_of_each_list() -> None:
    short = [generation("x", "short", n) for n in range(10)]
    long = [generation("y", "long", n) for n in range(30)]

    merged = interleaved([short, long])

    for cut in range(len(merged) + 1):
        counts = Counter(each.model for each in merged[:cut])
        assert abs(counts["short"] / 10 - counts["long"] / 30) <= 0.1


def test_published_selection_can_be_read() -> None:
    groups = read_selection(DEFAULT)

    assert sum(group["count"] for group in groups["claims"]) >= 160
    assert len(groups["models"][0]["equal"]) + len(groups["models"][0]["also"]) >= 6
