"""Verdicts on honest answers to many tasks: the compiled reference, and those in Triton.

    python benchmarks/answers.py [PATTERN ...] [--imported FOLDER] [--device gpu|cpu]
                                 [--scope round|final] [--answers compile|triton|solutions]
                                 [--every] [--again] [--within SECONDS] [--cache FOLDER]
                                 [--output FILE]

Judges tasks of `tasks/` and those that were imported into FOLDER, `native/silu` and
`kernelbench/kb1_19_relu` to a PATTERN, that have a Triton answer: a native one its baseline in
Triton, if it is in the short form, and an imported one a template in `triton_answers`. With
`--answers solutions` every honest source in Triton that is kept with an operator. With
`--every` also the others, whose only answer is the compiled reference. All of these answers should
pass. Verdicts of the same versions in the file of results are kept, so that a run can be continued.
None is started later than SECONDS after the start.

One process for each GPU judges with a warm fork server, and builds what comes next meanwhile. A CPU
interprets Triton on small cases, and judges the reference as it is, since a candidate may not
compile there.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["GOMP_SPINCOUNT"] = "0"  # as for the judge: threads sleep while a candidate is timed

import torch

from benchmarks.shared import ROOT, is_current, now, resumable_parser, write_json
from benchmarks.triton_answers.kernelbench import KERNELBENCH
from benchmarks.triton_answers.templates import Template
from evaluation import JUDGE_VERSION
from evaluation.bench.devices import detect
from evaluation.bench.devices.device import Device
from evaluation.bench.process.fork_server import ForkServer
from evaluation.code.languages import languages
from evaluation.device_kind import CPU, GPU
from evaluation.errors import SubmissionError, TaskError
from evaluation.judge import request as requested
from evaluation.judge.request import SCOPES
from evaluation.judge.verdict_queue import VerdictQueue, serve
from evaluation.kinds.kernel import builds
from evaluation.kinds.kernel import judge as kernel_judge
from evaluation.kinds.kernel.load import load_operator, load_task
from evaluation.tasks.operator import Operator
from evaluation.tasks.spec import Task, find_operators, folder_of, has_mutants
from evaluation.types import GateName, Report, Verdict, to_json
from runners.agents.compiler import compiled

NATIVE_SUITE = "native"
TEMPLATES: Mapping[str, Mapping[str, Template]] = {"kernelbench": KERNELBENCH}
"""Triton answers to imported tasks; one to a native task is its baseline."""
TRACKS = {"compile": "torch-to-torch", "triton": "torch-to-triton"}
SOLUTIONS = "solutions"
MAX_SECONDS = 300.0
"""Time of one verdict, after which its process is ended."""
COMPILES = "{name} = torch.compile({name}, dynamic=True)"
"""Line that compiles an answer, which a CPU does without."""


@dataclasses.dataclass(frozen=True)
class Request:
    """One answer to judge: one of TRACKS, or the name of a solution in Triton."""

    suite: str
    root: str
    operator: str
    answer: str
    kind: str
    scope: str

    @property
    def key(self) -> str:
        return f"{self.suite}/{self.operator}/{self.answer}"

    def task(self) -> Task:
        """Return the task. Raises TaskError."""
        track = TRACKS.get(self.answer, TRACKS["triton"])
        return load_task(Path(self.root), self.operator, track, self.kind)

    def source(self, task: Task) -> str:
        """Return the source of the answer; one that is not in TRACKS is the name of a solution."""
        if self.answer not in TRACKS:
            return solutions(task.operator)[self.answer]
        if self.answer == "triton" and self.suite == NATIVE_SUITE:
            return task.operator.baseline("triton")
        if self.answer == "triton":
            return TEMPLATES[self.suite][self.operator].source(task.operator)
        parameters = ", ".join(argument.name for argument in task.operator.arguments)
        skeleton = f"def {self.operator}({parameters}):\n    pass\n"
        reference = (task.operator.folder / "reference.py").read_text(encoding="utf-8")
        source = compiled(reference, skeleton)["dynamic shapes"]
        if self.kind == CPU:
            source = source.replace(COMPILES.format(name=self.operator), "")
        return source


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the chosen answers; the exit code is 0 if all of them passed."""
    options = parser().parse_args(arguments)
    cache = options.cache.absolute()
    if options.serve:
        serve(lambda data, fork_server: judge(Request(**data), cache, fork_server), options.device)
        return 0
    end = time.monotonic() + options.within
    devices = [d for d in detect.devices(cache, (options.device,)) if not d.unjudged]
    if not devices:
        print(f"there is no {options.device} here", file=sys.stderr)
        return 2
    devices = [device for device in devices if device.slug == devices[0].slug]
    output = options.output or ROOT / f"benchmarks/results/answers-{options.device}.json"
    known = json.loads(output.read_text())["answers"] if output.is_file() else {}
    run = Run(devices, known, output, end, cache)
    wanted = list(requests(options))
    run.judge([each for each in wanted if not is_known(known, each, options.again)])
    return run.summarise(wanted)


def parser() -> argparse.ArgumentParser:
    options = resumable_parser(__doc__.partition("\n")[0])
    options.add_argument("--imported", type=Path, help="a folder of imported tasks of one suite")
    options.add_argument("--device", choices=(GPU, CPU), default=GPU)
    options.add_argument("--scope", choices=SCOPES, default="round")
    options.add_argument(
        "--answers",
        choices=(*TRACKS, SOLUTIONS),
        action="append",
        help="default: compile and triton",
    )
    options.add_argument("--every", action="store_true", help="also without a Triton answer")
    options.add_argument("--again", action="store_true", help="judge what did not pass again")
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return options


def requests(options: argparse.Namespace) -> Iterator[Request]:
    """Yield the chosen answers, those to one operator together, in the order of the patterns."""
    roots = {NATIVE_SUITE: ROOT / "tasks"}
    if options.imported:
        roots[options.imported.name] = options.imported.absolute()
    answered = {suite: triton_answers(suite, root) for suite, root in roots.items()}
    names = [
        (suite, name)
        for suite, root in roots.items()
        for name in find_operators(root)
        if options.every or SOLUTIONS in (options.answers or ()) or name in answered[suite]
    ]
    found = [n for p in options.patterns for n in names if fnmatchcase("/".join(n), p)]
    for suite, name in dict.fromkeys(found):
        for answer in options.answers or TRACKS:
            if answer == SOLUTIONS:
                operator = load_operator(folder_of(roots[suite], name))
                for each in solutions(operator):
                    yield Request(
                        suite, str(roots[suite]), name, each, options.device, options.scope
                    )
            elif answer != "triton" or name in answered[suite]:
                root = str(roots[suite])
                yield Request(suite, root, name, answer, options.device, options.scope)


def solutions(operator: Operator) -> dict[str, str]:
    """Return the honest sources in Triton that are kept with an operator, by name."""
    kept = {each.name: each.source for each in operator.honest() if each.language == "triton"}
    return {name: source for name, source in kept.items() if name not in TRACKS}


def triton_answers(suite: str, root: Path) -> frozenset[str]:
    """Return the operators of a suite that have a Triton answer. Raises TaskError."""
    if suite != NATIVE_SUITE:
        return frozenset(TEMPLATES.get(suite, {}))
    folders = {name: folder_of(root, name) for name in find_operators(root)}
    return frozenset(
        name
        for name, folder in folders.items()
        if not has_mutants(folder) and (folder / "baseline" / "triton.py").is_file()
    )


def is_known(results: Mapping[str, Any], request: Request, again: bool = False) -> bool:
    """Return whether there is a verdict of this version of task and answer that holds.

    One of a broken judge never does, and any other but a pass only unless asked for `again`.
    """
    result = results.get(request.key, {})
    if result.get("verdict") == Verdict.BROKEN or (
        again and result.get("verdict") != Verdict.PASSED
    ):
        return False
    try:
        task = request.task()
        source = digest(request.source(task))
    except TaskError:
        return False
    return is_current(result, hash=task.hash, source=source, scope=request.scope)


def digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:12]


class Run:
    """Verdicts by one process for each device; results are written after each."""

    def __init__(
        self, devices: list[Device], results: dict[str, Any], output: Path, end: float, cache: Path
    ) -> None:
        self.devices, self.results, self.output = devices, results, output
        self.end, self.cache = end, cache
        self._lock = threading.Lock()

    def judge(self, wanted: list[Request]) -> None:
        """Judge answers until all are done or the time is over."""
        kind = self.devices[0].kind
        options = ("--serve", "--device", kind, "--cache", str(self.cache))
        VerdictQueue(
            self.devices,
            (sys.executable, __file__, *options),
            encode=dataclasses.asdict,
            build=lambda request: build_ahead(request, self.cache),
            record=self._record,
            lost=lambda message, late: {"verdict": Verdict.BROKEN, "message": message},
            limit_seconds=MAX_SECONDS,
            end=self.end,
        ).run(wanted)

    def _record(self, request: Request, result: dict[str, Any]) -> None:
        print(request.key, json.dumps(result), flush=True)
        device = {k: v for k, v in to_json(self.devices[0].fingerprint).items() if k != "uuid"}
        with self._lock:
            self.results[request.key] = result
            verdicts = Counter(each["verdict"] for each in self.results.values())
            data = {
                "command": "python benchmarks/answers.py",
                "device": device,
                "torch": torch.__version__,
                "verdicts": dict(sorted(verdicts.items())),
                "answers": dict(sorted(self.results.items())),
            }
            write_json(self.output, data, indent=1)

    def summarise(self, wanted: Sequence[Request]) -> int:
        """Print what came of the answers; return 0 if all of them passed."""
        judged = [each for each in wanted if each.key in self.results]
        passed = [each for each in judged if self.results[each.key]["verdict"] == Verdict.PASSED]
        print(f"{len(passed)} of {len(judged)} judged answers passed, of {len(wanted)} chosen")
        for request in judged:
            result = self.results[request.key]
            if result["verdict"] != Verdict.PASSED:
                print(f"{request.key}: {result['verdict']} {result['message']}")
        return 0 if len(passed) == len(wanted) else 1


def build_ahead(request: Request, cache: Path) -> None:
    """Build an answer into the cache; its verdict reports what fails."""
    with suppress(SubmissionError, TaskError):
        task = request.task()
        files = {task.target_file: request.source(task)}
        languages()[task.track.target].check(files, task)
        builds.build(task, task.track.target, files, cache)


def judge(request: Request, cache: Path, fork_server: ForkServer) -> dict[str, Any]:
    """Return the verdict on an answer, with what to know of it."""
    started = time.perf_counter()
    try:
        task = request.task()
        source = request.source(task)
        submission = requested.Request(task, {task.target_file: source}, cache, scope=request.scope)
        report = kernel_judge.evaluate(submission, fork_server=fork_server)
    except Exception as error:  # one that fails must not end the others
        message = f"{type(error).__name__}: {error}"
        return {"verdict": Verdict.BROKEN, "message": message, "at": now()}
    return {
        "hash": task.hash,
        "source": digest(source),
        "judge": JUDGE_VERSION,
        "scope": request.scope,
        **_verdict(report),
        "seconds": round(time.perf_counter() - started, 1),
        "gate_seconds": {name: round(value, 2) for name, value in report.seconds.items()},
        "at": now(),
    }


def _verdict(report: Report) -> dict[str, Any]:
    """Return verdict, speedups and the largest error; of a refusal also gate, reason and details.

    Details are those of the judge alone, such as the hidden case.
    """
    gates = {gate.gate: gate for gate in report.gates}
    correctness = gates.get(GateName.CORRECTNESS)
    performance = gates.get(GateName.PERFORMANCE)
    found: dict[str, Any] = {
        "verdict": report.verdict,
        "message": report.message,
        "seen": report.seen and round(report.seen.speedup, 3),
        "unseen": report.unseen and round(report.unseen.speedup, 3),
        "unseen_low": report.unseen and round(report.unseen.low, 3),
        "largest_error": correctness and dict(correctness.detail).get("largest_error"),
        "baseline": performance and dict(performance.detail).get("baseline"),
    }
    if report.verdict is Verdict.PASSED:
        return found
    last = report.gates[-1]
    details = {name: str(value)[-2000:] for name, value in dict(last.private).items()}
    details |= {"compiler": last.compiler[0].text[-1000:]} if last.compiler else {}
    return {**found, "gate": last.gate, "reason": last.cause, "details": details}


if __name__ == "__main__":
    sys.exit(main())
