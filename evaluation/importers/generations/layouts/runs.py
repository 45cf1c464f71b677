"""Runs of KernelBench: `RUN/level_L_problem_P_sample_S_kernel.py`, with `eval_results.json` beside.

Names with `_epoch_E_` and `_solution_S_`, and `problem_P_kernel.py` of one level, are read too.

Options: `paths`, globs of the sources; `level`, where names have none; `log` or `record`, a file
with reference times or speedups. Without a record, the claim of a right source is its reference
time, `ref_runtime` of its own result or else that of the log, divided by its `runtime`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from posixpath import dirname
from typing import Any, cast

from evaluation.errors import RequestError
from evaluation.importers.generations.generation import Claim, Generation
from evaluation.importers.generations.part import Part
from evaluation.importers.generations.tree import Tree

_NAME = re.compile(
    r"(?:level_(?P<level>\d+)_)?problem_(?P<problem>\d+)"
    r"(?:_epoch_(?P<epoch>\d+))?(?:_(?:sample|solution)_(?P<sample>\d+))?_kernel\.py"
)
REQUIRED = ("paths",)
RESULTS = ("eval_results.json", "detailed_results.json")
_OF_LEVEL = re.compile(r"'level': (\d)")
_OF_PROBLEM = re.compile(r"\[Eval Result\] Problem ID: (\d+), Sample ID: \d+")
_REFERENCE = re.compile(r" ref_runtime=([\d.]+)")

Results = Mapping[tuple[int, int], Mapping[str, Any]]
"""Results of a run by problem and sample."""


def generations(collection: str, part: Part, tree: Tree) -> Iterator[Generation]:
    """Yield the sources by level, problem and sample, run by run."""
    wanted = part.options["paths"]
    paths = [path for path in tree.paths if any(fnmatchcase(path, glob) for glob in wanted)]
    results = _results(collection, tree, {dirname(path) for path in paths})
    references = _references(part, tree)
    speedups = _speedups(part, tree)
    texts = tree.read(paths)
    found = []
    for path in paths:
        match = _NAME.fullmatch(path.rpartition("/")[2])
        if not match or not (level := int(match["level"] or part.options.get("level", 0))):
            continue
        problem, sample = int(match["problem"]), int(match["sample"] or 0)
        run = dirname(path)
        result = results[run].get((problem, sample), {})
        place = level, problem
        claim = _claim(result, part, references.get(place), speedups.get(place))
        model = part.model or run.rpartition("/")[2] or collection
        source = tree.address(path)
        generation = Generation(
            collection, model, part.suite, level, problem, sample, source, texts[path], claim
        )
        found.append(((run, level, problem, sample, int(match["epoch"] or 0)), generation))
    for _, generation in sorted(found, key=lambda each: each[0]):
        yield generation


def _claim(
    result: Mapping[str, Any], part: Part, reference: float | None, speedup: float | None
) -> Claim:
    metadata = result.get("metadata") or {}
    right = result.get("correctness")
    runtime, own_reference = _time(result, "runtime"), _time(result, "ref_runtime")
    reference = own_reference or reference
    if speedup is None and right and reference and runtime:
        speedup = reference / runtime
    hardware = str(metadata.get("hardware") or part.hardware)
    return Claim(None if right is None else bool(right), speedup, hardware, part.baseline)


def _time(result: Mapping[str, Any], name: str) -> float | None:
    """Return a time of a result, in the unit of its others; None for -1, which stands for none."""
    time = float(result.get(name) or 0)
    return time if 0 < time < math.inf else None


def _results(collection: str, tree: Tree, runs: set[str]) -> dict[str, Results]:
    """Return the results of each run, from the file beside its sources. Raises RequestError."""
    paths = {
        path: dirname(path)
        for path in tree.paths
        if path.rpartition("/")[2] in RESULTS and dirname(path) in runs
    }
    found: dict[str, Results] = {run: {} for run in runs}
    for path, text in tree.read(paths).items():
        try:
            found[paths[path]] = {
                place: _checked(each) for place, each in _result(json.loads(text))
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RequestError(
                f"{collection}/{path}: no results of KernelBench ({type(error).__name__}: {error});"
                " mend the file, or remove it to judge the sources without their claims"
            ) from None
    return found


def _checked(result: Any) -> Mapping[str, Any]:
    """Return a result of one sample. Raises TypeError for another form."""
    for each in (result, result.get("metadata") or {}):
        if not isinstance(each, dict):
            raise TypeError(f"{each!r:.40} is no object")
    _time(result, "runtime")
    _time(result, "ref_runtime")
    return cast(Mapping[str, Any], result)


def _result(data: Any) -> Iterator[tuple[tuple[int, int], Mapping[str, Any]]]:
    """Yield results by problem and sample, from any of three forms."""
    if isinstance(data, dict) and isinstance(data.get("results"), list):
        for each in data["results"]:
            yield (int(each["problem_id"]), 0), each.get("eval_result") or {}
    elif isinstance(data, dict):
        for problem, samples in data.items():
            for each in samples if isinstance(samples, list) else [samples]:
                yield (int(problem), int(each.get("sample_id", 0))), each
    else:
        for each in data:
            if match := _NAME.fullmatch(f"{each['evaluation_id']}_kernel.py"):
                yield (int(match["problem"]), int(match["sample"] or 0)), each


def _references(part: Part, tree: Tree) -> dict[tuple[int, int], float]:
    """Return milliseconds of the reference by level and problem, from the log of an evaluation."""
    found: dict[tuple[int, int], float] = {}
    if not (path := part.options.get("log")):
        return found
    level = problem = 0
    for line in tree.read([path])[path].splitlines():
        if line.startswith("Starting Batch Eval") and (match := _OF_LEVEL.search(line)):
            level = int(match[1])
        elif match := _OF_PROBLEM.search(line):
            problem = int(match[1])
        elif match := _REFERENCE.search(line):
            found[level, problem] = float(match[1])
    return found


def _speedups(part: Part, tree: Tree) -> dict[tuple[int, int], float]:
    """Return speedups by level and problem, from a record of the fastest and the slowest."""
    if not (path := part.options.get("record")):
        return {}
    lists = json.loads(tree.read([path])[path])["speed"]
    rows = [row for name in ("top_speedups", "slowest_speedups") for row in lists.get(name, ())]
    return {(int(row["level"]), int(row["problem_id"])): float(row["speedup"]) for row in rows}
