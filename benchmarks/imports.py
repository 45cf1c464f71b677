"""Import of a public suite from a checkout, and admission of what was imported on this CPU.

    python benchmarks/imports.py --suite SUITE --checkout FOLDER --into FOLDER [PATTERN ...]
                                 [--only GLOB] [--within SECONDS] [--cache FOLDER] [--output FILE]
                                 [--jobs N] [--singles N]

Writes what each problem came to, then checks the track torch-to-torch of each imported task, in the
order of the PATTERNs. Tasks whose current version is in FILE are skipped, so that a run can be
continued. `--only`, which may be repeated, imports a part, and keeps what FILE has of the same
commit. No task is started later than SECONDS after the start; with 0 only the import runs. Without
`--checkout`, nothing is imported, and the tasks of every `--suite` that are in the folder are
checked.

`--jobs` tasks are checked at a time, each on two cores of its own, and `--singles` more on one core
each, where no times are repeated. A task whose only problem is that times did not repeat is checked
once more after the others. The import uses all cores of this process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["GOMP_SPINCOUNT"] = "0"  # as for the judge: threads sleep while a candidate is timed

from evaluation.bench.process.fork_server import ALLOCATOR_ENVIRONMENT

os.environ.update(ALLOCATOR_ENVIRONMENT)  # of workers, which would map memory again and again

import torch

from benchmarks.import_workers import (
    Cores,
    Queue,
    Result,
    checked,
    cores_of,
    is_to_be_checked_again,
    run,
)
from benchmarks.shared import ROOT, is_current, resumable_parser, write_json
from evaluation.bench.devices import detect
from evaluation.bench.devices.device import Device
from evaluation.device_kind import CPU
from evaluation.importers import outcome
from evaluation.importers.checkout import Checkout
from evaluation.importers.importer import import_suite
from evaluation.importers.suites import suites
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.spec import OPEN_TRACK, Task, find_operators
from evaluation.types import to_json


def main(
    arguments: Sequence[str] | None = None,
    check: Callable[[Task, Path], Result] = checked,
    devices: Callable[..., Sequence[Device]] = detect.devices,
) -> int:
    """Import a suite and check its tasks; the exit code is 0 if all of them are admitted.

    A single worker checks by `check`.
    """
    parser = resumable_parser(__doc__.partition("\n")[0])
    parser.add_argument("--suite", required=True, choices=suites(), action="append")
    parser.add_argument("--checkout", type=Path)
    parser.add_argument("--into", required=True, type=Path)
    parser.add_argument(
        "--only", action="append", default=[], metavar="GLOB", help="names of tasks or paths"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument("--singles", type=int, default=0, metavar="N")
    options = parser.parse_args(arguments)
    try:
        cores = cores_of(options.jobs, options.singles)
    except ValueError as error:
        parser.error(str(error))
    end = time.monotonic() + options.within
    output = options.output or ROOT / "benchmarks/results/imports.json"
    data = json.loads(output.read_text()) if output.is_file() else {"suites": {}, "tasks": {}}
    cache = options.cache.absolute()
    device = _device(cache, cores[0], devices)
    names = {slug: _present(options.into / slug) for slug in options.suite}
    if options.checkout:
        if len(options.suite) > 1:
            parser.error("a checkout has one suite")
        found = _import(options)
        data |= {"command": "python benchmarks/imports.py", "torch": torch.__version__}
        data["device"] = device
        data["suites"][found.suite] = _merged(data["suites"].get(found.suite, {}), found.to_json())
        data["duplicates"] = outcome.duplicates([*data["suites"].values()])
        print(f"{len(data['duplicates'])} graphs of operations occur in several tasks")
        write_json(output, data, indent=1)
        names[found.suite] = [e.name for e in found.outcomes if e.kind == outcome.FIRST_CLASS]
    tasks = _chosen(names, options.into.absolute(), options.patterns)

    def results(task: Task) -> dict[str, Any]:
        return data["tasks"].setdefault(task.operator.folder.parent.name, {})

    def keep(task: Task, result: dict[str, Any]) -> None:
        results(task)[task.operator.name] = {**result, "cpu": device.get("name", "")}
        print(task.slug, json.dumps(result), flush=True)
        write_json(output, data, indent=1)

    left = [task for task in tasks if not _is_current(results(task), task)]
    again = [
        task
        for task in tasks
        if task not in left and is_to_be_checked_again(results(task)[task.operator.name])
    ]
    run(Queue(left, again, end), cores, cache, keep, check)
    current = [task for task in tasks if _is_current(results(task), task)]
    admitted = [task for task in current if results(task)[task.operator.name]["admitted"]]
    print(f"{len(admitted)} of {len(current)} checked tasks are admitted, of {len(tasks)} chosen")
    return 0 if len(admitted) == len(tasks) else 1


def _device(cache: Path, cores: Cores, devices: Callable[..., Sequence[Device]]) -> dict[str, Any]:
    """Return the CPU as a worker sees it; its peaks are measured before there are others."""
    here = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores.threads)
    try:
        device = to_json(devices(cache, (CPU,))[0].fingerprint)
    finally:
        os.sched_setaffinity(0, here)
    return {name: value for name, value in device.items() if name != "uuid"}


def _present(folder: Path) -> list[str]:
    return [*find_operators(folder)] if folder.is_dir() else []


def _import(options: argparse.Namespace) -> outcome.Import:
    (slug,) = options.suite
    found = import_suite(
        suites()[slug],
        Checkout.open(options.checkout, suites()[slug].repository),
        options.into,
        options.only,
        report=lambda each: print(outcome.row(each), flush=True),
    )
    print(found.summary())
    return found


def _chosen(
    names: Mapping[str, Sequence[str]], folder: Path, patterns: Sequence[str]
) -> list[Task]:
    """Return the tasks of all suites whose names match, in the order of the patterns."""
    chosen = [
        (slug, name)
        for pattern in patterns
        for slug, of_suite in names.items()
        for name in of_suite
        if fnmatchcase(name, pattern)
    ]
    return [
        load_task(folder / slug, name, OPEN_TRACK.slug, CPU) for slug, name in dict.fromkeys(chosen)
    ]


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the table of an import with the other problems of an older one of the same commit."""
    problems = {**old["problems"], **new["problems"]} if old.get("commit") == new["commit"] else {}
    problems = dict(sorted((problems or new["problems"]).items()))
    kinds = Counter(problem["outcome"] for problem in problems.values())
    return {**new, "counts": {"problems": len(problems), **kinds}, "problems": problems}


def _is_current(results: dict[str, Any], task: Task) -> bool:
    """Return whether the results have this version of a task, by a judge whose admissions hold."""
    return is_current(results.get(task.operator.name, {}), hash=task.hash)


if __name__ == "__main__":
    sys.exit(main())
