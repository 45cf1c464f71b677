"""Selection of generations to judge, in an order in which a cut anywhere leaves a balanced table.

A TOML file has groups, `claims`, `models` and `samples`. All of the first two kinds advance at the
same rate, so that each is done in the same share; samples of one model come last.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.errors import RequestError
from evaluation.importers.generations.generation import Generation

MAX_LEVEL = 3
"""Level of the suite up to which claims are selected: further ones are not imported."""
DEFAULT = Path(__file__).with_name("selection.toml")


def read_selection(path: Path) -> Mapping[str, Any]:
    """Return the groups of a file. Raises RequestError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RequestError(f"{path}: {error}") from error


def select(groups: Mapping[str, Any], found: Sequence[Generation]) -> list[Generation]:
    """Return the selected generations in their order; one that two groups name comes once."""
    claims = [_claims(group, found) for group in groups.get("claims", ())]
    models = [_models(group, found) for group in groups.get("models", ())]
    samples = [_samples(group, found) for group in groups.get("samples", ())]
    ordered = [*interleaved([_in_turn(claims), *models]), *interleaved(samples)]
    return list({generation.key: generation for generation in ordered}.values())


def interleaved(lists: Iterable[Sequence[Generation]]) -> list[Generation]:
    """Return the lists as one, in which each has advanced by the same share at any place."""
    places = [
        ((index + 0.5) / len(each), number, generation)
        for number, each in enumerate(lists)
        for index, generation in enumerate(each)
    ]
    return [generation for _, _, generation in sorted(places, key=lambda place: place[:2])]


def _in_turn(lists: Sequence[Sequence[Generation]]) -> list[Generation]:
    """Return the first of each list, then the second of each, and so on."""
    longest = max(map(len, lists), default=0)
    return [each[index] for index in range(longest) for each in lists if index < len(each)]


def _claims(group: Mapping[str, Any], found: Sequence[Generation]) -> list[Generation]:
    """Return the largest claims of a collection, or of one of its models."""
    claimed = [
        each
        for each in found
        if each.collection == group["collection"]
        and group.get("model", each.model) == each.model
        and each.claim.speedup is not None
        and each.level <= MAX_LEVEL
    ]
    claimed.sort(key=lambda each: (-(each.claim.speedup or 0), each.key))
    return claimed[: group["count"]]


def _models(group: Mapping[str, Any], found: Sequence[Generation]) -> list[Generation]:
    """Return sample 0 of several models on equal problems, one problem after the other.

    Problems that all of `equal` have a source for come first.
    """
    level, equal = group["level"], group["equal"]
    models = [*equal, *group.get("also", ())]
    by_problem: dict[int, dict[str, Generation]] = defaultdict(dict)
    for each in found:
        if each.model in models and each.level == level and each.sample == 0:
            by_problem[each.problem].setdefault(each.model, each)
    of_most = {
        problem: answers
        for problem, answers in by_problem.items()
        if group["equal"][0] in answers or all(model in answers for model in equal)
    }

    def rank(problem: int) -> tuple[bool, str]:
        return not all(model in of_most[problem] for model in equal), _drawn(level, problem)

    return [
        of_most[problem][model]
        for problem in sorted(of_most, key=rank)
        for model in models
        if model in of_most[problem]
    ]


def _samples(group: Mapping[str, Any], found: Sequence[Generation]) -> list[Generation]:
    """Return all samples of one model on some problems, one problem after the other."""
    by_problem: dict[int, list[Generation]] = defaultdict(list)
    for each in found:
        if each.model == group["model"] and each.level == group["level"]:
            by_problem[each.problem].append(each)
    whole = [p for p, samples in by_problem.items() if len(samples) >= group["samples"]]
    first = sorted(whole, key=lambda problem: _drawn(group["level"], problem))
    by_sample: Callable[[Generation], int] = lambda each: each.sample  # noqa: E731
    return [
        each
        for problem in first[: group["problems"]]
        for each in sorted(by_problem[problem], key=by_sample)[: group["samples"]]
    ]


def _drawn(level: int, problem: int) -> str:
    """Return a key that orders problems at random, and always in the same way."""
    return hashlib.sha256(f"{level}/{problem}".encode()).hexdigest()
