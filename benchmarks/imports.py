"""Import of a public suite from a checkout, and admission of what was imported on this CPU.

    python benchmarks/imports.py --suite SUITE --checkout FOLDER --into FOLDER [PATTERN ...]
                                 [--only GLOB] [--within SECONDS] [--cache FOLDER] [--output FILE]

Writes what each problem came to, then checks the track torch-to-torch of each imported task, in the
order of the PATTERNs. Tasks whose current version is in FILE are skipped, so that a run can be
continued. `--only` imports a part, and keeps what FILE has of the same commit. No task is started
later than SECONDS after the start; with 0 only the import runs.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["GOMP_SPINCOUNT"] = "0"  # as for the judge: threads sleep while a candidate is timed

import torch

from benchmarks.shared import ROOT, is_current, now, resumable_parser, write_json
from evaluation import JUDGE_VERSION
from evaluation.admission.admit import admit
from evaluation.device_kind import CPU
from evaluation.devices import detect
from evaluation.errors import TaskError
from evaluation.importing import outcome
from evaluation.importing.checkout import Checkout
from evaluation.importing.importer import import_suite
from evaluation.importing.suites import suites
from evaluation.tasks.spec import OPEN_TRACK, Task
from evaluation.tracks.load import load_task
from evaluation.types import to_json


def main(arguments: Sequence[str] | None = None) -> int:
    """Import a suite and check its tasks; the exit code is 0 if all of them are admitted."""
    parser = resumable_parser(__doc__.partition("\n")[0])
    parser.add_argument("--suite", required=True, choices=suites())
    parser.add_argument("--checkout", required=True, type=Path)
    parser.add_argument("--into", required=True, type=Path)
    parser.add_argument("--only", default="", help="a glob of names of tasks or paths")
    options = parser.parse_args(arguments)
    end = time.monotonic() + options.within
    output = options.output or ROOT / "benchmarks/results/imports.json"
    data = json.loads(output.read_text()) if output.is_file() else {"suites": {}, "tasks": {}}
    suite = suites()[options.suite]
    found = import_suite(
        suite,
        Checkout.open(options.checkout, suite.repository),
        options.into,
        options.only,
        report=lambda each: print(outcome.row(each), flush=True),
    )
    print(found.summary())
    cache = options.cache.absolute()
    device = to_json(detect.devices(cache, (CPU,))[0].fingerprint)
    data |= {"command": "python benchmarks/imports.py", "torch": torch.__version__}
    data["device"] = {name: value for name, value in device.items() if name != "uuid"}
    data["suites"][suite.slug] = _merged(data["suites"].get(suite.slug, {}), found.to_json())
    data["duplicates"] = outcome.duplicates([*data["suites"].values()])
    print(f"{len(data['duplicates'])} graphs of operations occur in several tasks")
    write_json(output, data, indent=1)
    names = [each.name for each in found.outcomes if each.kind == outcome.FIRST_CLASS]
    chosen = [name for p in options.patterns for name in names if fnmatchcase(name, p)]
    root = options.into.absolute() / suite.slug
    tasks = [load_task(root, name, OPEN_TRACK.slug, CPU) for name in dict.fromkeys(chosen)]
    results = data["tasks"].setdefault(suite.slug, {})
    for task in tasks:
        if time.monotonic() < end and not _is_current(results, task):
            results[task.operator.name] = _checked(task, cache)
            print(task.slug, json.dumps(results[task.operator.name]), flush=True)
            write_json(output, data, indent=1)
    current = [task.operator.name for task in tasks if _is_current(results, task)]
    admitted = [name for name in current if results[name]["admitted"]]
    print(f"{len(admitted)} of {len(current)} checked tasks are admitted, of {len(tasks)} chosen")
    return 0 if len(admitted) == len(tasks) else 1


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the table of an import with the other problems of an older one of the same commit."""
    problems = {**old["problems"], **new["problems"]} if old.get("commit") == new["commit"] else {}
    problems = dict(sorted((problems or new["problems"]).items()))
    kinds = Counter(problem["outcome"] for problem in problems.values())
    return {**new, "counts": {"problems": len(problems), **kinds}, "problems": problems}


def _is_current(results: dict[str, Any], task: Task) -> bool:
    """Return whether the results have this version of a task, by a judge whose admissions hold."""
    return is_current(results.get(task.operator.name, {}), hash=task.hash)


def _checked(task: Task, cache: Path) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        admission = admit(task, cache)
        admitted, problems = admission.admitted, list(admission.problems)
    except TaskError as error:
        admitted, problems = False, [str(error)]
    return {
        "hash": task.hash,
        "judge": JUDGE_VERSION,
        "admitted": admitted,
        "problems": problems,
        "seconds": round(time.perf_counter() - started, 1),
        "at": now(),
    }


if __name__ == "__main__":
    sys.exit(main())
