"""The problems' own modules, handed in as answers to imported problems: each must be right.

    python benchmarks/own_references.py --imported FOLDER [PATTERN ...] [--within SECONDS]
                                        [--output FILE]

Takes the file of each problem of KernelBench in FOLDER, renames its `Model` to `ModelNew`, and
binds, calls and compares it as the judge does: with the problem's constants, secret weights, and an
error bound in float64, on the smallest case and on the one of the published model that fits a CPU.
Each problem has a process with MAX_BYTES of memory and MAX_SECONDS of processor time. A problem
beyond them is counted apart, as is one that was not imported, with the reason. Results of the same
versions in the file are kept, so that a run can be continued, and no problem is started later than
SECONDS after the start.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from benchmarks.shared import ROOT, is_current, now, resumable_parser, write_json
from evaluation import JUDGE_VERSION
from evaluation.bench.memory.ring import BufferRing
from evaluation.bench.memory.verify import compare_launch
from evaluation.code.languages import languages
from evaluation.device_kind import CPU
from evaluation.importers.importer import CACHE
from evaluation.kinds.kernel.gates.correctness import BOUNDARY
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.sandboxed.kernels import loader
from evaluation.sandboxed.kernels.torch import TorchKernel
from evaluation.tasks.loaded_code import run_here
from evaluation.tasks.spec import OPEN_TRACK, Task
from evaluation.types import Case

SUITES = ("kernelbench", "kernelbench-v0")
PASSED, FAILED, NOT_IMPORTED, TOO_LARGE = "passed", "failed", "not imported", "too large for a CPU"
PREFIXES = ("kb", "kbv0l")
"""Of the names of the suites' tasks, before the level."""
PROBLEMS = {1: 100, 2: 100, 3: 50}
"""Problems of each level."""
NEVER = "no import of it has ended"
MAX_BYTES = 6 << 30
MAX_SECONDS = 240
_LEVEL = re.compile(r"kb(?:v0l)?(\d)_")


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the chosen problems; the exit code is 0 if all of them passed."""
    parser = resumable_parser(__doc__.partition("\n")[0])
    parser.add_argument("--imported", type=Path, required=True)
    options = parser.parse_args(arguments)
    end = time.monotonic() + options.within
    output = options.output or ROOT / "benchmarks/results/own-references.json"
    data = json.loads(output.read_text()) if output.is_file() else {"problems": {}}
    data |= {"command": "python benchmarks/own_references.py", "torch": torch.__version__}

    def keep(name: str, result: Mapping[str, Any]) -> None:
        data["problems"] = dict(sorted({**data["problems"], name: dict(result)}.items()))
        data["counts"] = counts(data["problems"])
        write_json(output, data, indent=1)

    found = {n: each for n, each in data["problems"].items() if each["status"] != NOT_IMPORTED}
    reasons = refused(options.imported)
    reasons |= dict.fromkeys(absent([*found, *reasons, *dict(imported(options.imported))]), NEVER)
    found |= {
        name: {"status": NOT_IMPORTED, "reason": reason}
        for name, reason in reasons.items()
        if is_chosen(name, options.patterns)
    }
    data["problems"], data["counts"] = dict(sorted(found.items())), counts(found)
    write_json(output, data, indent=1)
    torch.ones(2, device="meta").add(1)  # imports once what operations without data need
    for name, root in imported(options.imported):
        if not is_chosen(name, options.patterns) or time.monotonic() >= end:
            continue
        task = load_task(root, name, OPEN_TRACK.slug, CPU)
        if not is_current(data["problems"].get(name, {}), hash=task.hash):
            result = tried(task)
            print(name, json.dumps(result), flush=True)
            keep(name, result)
    for level, found in data.get("counts", {}).items():
        print(level, found)
    return 0 if all(each["status"] == PASSED for each in data["problems"].values()) else 1


def imported(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield names of imported problems with the folders of their suites."""
    for suite in SUITES:
        for path in sorted((folder / suite).glob("*/task.toml")):
            yield path.parent.name, path.parent.parent.absolute()


def refused(folder: Path) -> dict[str, str]:
    """Return why problems were not imported, by name."""
    found: dict[str, str] = {}
    for suite in SUITES:
        path = folder / suite / CACHE
        known = json.loads(path.read_text())["refused"] if path.is_file() else {}
        found |= {name: each["reason"] for name, each in known.items()}
    names = {name for name, _ in imported(folder)}
    return {name: reason for name, reason in found.items() if name not in names}


def absent(names: Sequence[str]) -> list[str]:
    """Return the level and number of the problems of both suites that none of the names has."""
    return [
        problem
        for prefix in PREFIXES
        for level, count in PROBLEMS.items()
        for number in range(1, count + 1)
        if not any(n.startswith(f"{(problem := f'{prefix}{level}_{number}')}_") for n in names)
    ]


def own_module(folder: Path) -> str:
    """Return the source of a problem with its module renamed."""
    source = (folder / "problem.py").read_text(encoding="utf-8")
    return re.sub(r"\bModel\b", "ModelNew", source)


def largest_error(task: Task, source: str, folder: Path, case: Case) -> float:
    """Return the largest error of a source on a case, as a share of the allowed error.

    The source is bound and called in this process, so it must be one that can be trusted.

    Raises: SubmissionError for a source that breaks a rule or is wrong.
    """
    language = languages()["torch"]
    language.check({task.target_file: source}, task)
    folder.mkdir(exist_ok=True)
    (folder / task.target_file).write_text(source, encoding="utf-8")
    kernel = loader("torch").load(folder, task.operator.name)
    assert isinstance(kernel, TorchKernel)
    workload = OperatorWorkload(task.operator, case)
    with BufferRing(workload, slots=2) as ring:
        kernel.suite_call = workload.reference.suite_call
        shared = ring.weights.slot(0) if ring.weights else {}
        slots = [
            {**workload.values, **ring.inputs.slot(n), **ring.outputs.slot(n), **shared}
            for n in range(2)
        ]
        launch = kernel.bind(task.operator.arguments, slots)
        given = [workload.reference.draw() for _ in slots]
        ring.write(given)
        launch(0, 2)
        ring.check_written(given, "here")
        worst = max(
            compare_launch(workload.reference, given[n], ring.outputs.slot(n), ring.secret, "here")
            for n in range(2)
        )
        ring.refill(0, 2)
        launch(0, 2)
        ring.verify(0, 2, sample=2, where="a window")
        return worst


def tried(task: Task) -> dict[str, Any]:
    """Return what came of a problem's own module as an answer, in a process of its own."""
    started = time.monotonic()
    reader, writer = os.pipe()
    if not (pid := os.fork()):
        resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS + 1))
        os.write(writer, json.dumps(_tried(task)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    found = json.loads(text) if text else {"status": FAILED, "reason": f"ended by {status}"}
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        found = {
            "status": TOO_LARGE,
            "reason": f"takes more than {MAX_SECONDS} s of processor time",
        }
    about = {"hash": task.hash, "judge": JUDGE_VERSION, "at": now()}
    return {**found, **about, "seconds": round(time.monotonic() - started, 1)}


def _tried(task: Task) -> dict[str, Any]:
    run_here()  # the suite's code, which the source is as well
    torch.set_num_threads(1)
    cases = task.checked_cases()
    chosen = [cases[0], next(case for case in cases if case.kind != BOUNDARY)]
    source = own_module(task.operator.folder)
    try:
        with TemporaryDirectory() as folder:
            worst = max(largest_error(task, source, Path(folder) / "k", case) for case in chosen)
    except Exception as error:  # a problem's code raises anything
        memory = isinstance(error, MemoryError) or "memory" in str(error)
        text = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
        return {"status": TOO_LARGE if memory else FAILED, "reason": text}
    return {"status": PASSED, "largest_error": round(worst, 3)}


def counts(problems: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Return how many problems of each suite and level came to what."""
    found: dict[str, Counter[str]] = {}
    for name, each in problems.items():
        level = _LEVEL.match(name)
        suite = SUITES[name.startswith("kbv0")]
        key = f"{suite} level {level[1] if level else '?'}"
        found.setdefault(key, Counter())[each["status"]] += 1
    return {key: dict(sorted(of.items())) for key, of in sorted(found.items())}


def is_chosen(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


if __name__ == "__main__":
    sys.exit(main())
