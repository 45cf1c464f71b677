"""Benchmark of the judge against itself: the unchanged baseline as a submission, idle and busy.

    python benchmarks/noise.py [--repeats 20] [--busy 0 1 2] [--kind cpu] [--output FILE]
    python benchmarks/noise.py --kind gpu --busy 0 --honest --within 270 [--output FILE]

Every verdict is a final one, on four tasks of different sizes in turn. A measurement that is right
reads 1: the share of the intervals that hold 1 is to be 19 of 20, the mean within 1 % of it on a
CPU and within 0.3 % on a GPU. Beside other work a verdict may be inconclusive, and must say so; no
point below 0.9 or above 1.1 may be shown without the mark of a noisy measurement. `--busy` lists
the numbers of endless loops beside the judge, each number a set of its own. `--honest` judges the
honest kernels of the GPU suite too, and counts those that are marked noisy.

All GPUs are measured on at once, each by a process with cores of its own, as workers do. Honest
kernels are built beside that, on further cores. After `--within` seconds no verdict is started.
Run it on a machine with nothing else to do.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import os
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["GOMP_SPINCOUNT"] = "0"  # read when torch is imported

from benchmarks.shared import ROOT, now, write_json
from evaluation import device_kind
from evaluation.bench.devices import gpu_files
from evaluation.bench.devices.cores import shares
from evaluation.code.cache_folder import default_cache
from evaluation.errors import SubmissionError
from evaluation.judge.request import Request
from evaluation.kinds.kernel import judge as kernel_judge
from evaluation.kinds.kernel.load import load_task
from evaluation.types import Interval, Report, Verdict, from_json, to_json

OPERATORS = ("rms_norm", "softmax", "matmul", "swiglu")
TRACKS = {"cpu": "cpp-to-cpp", "gpu": "cuda-to-cuda"}
FAR = (0.9, 1.1)
"""Beyond these a point is a claim of its own, which needs the mark of a noisy measurement."""
HONEST = "honest kernels"


@dataclasses.dataclass(frozen=True)
class Work:
    """One verdict: on the unchanged baseline of an operator, or on a file of the honest ones."""

    name: str
    kind: str
    cache: Path
    honest: bool = False

    def judge(self) -> dict[str, Any]:
        """Return the report of a final verdict, as data."""
        return to_json(self._judge_honest() if self.honest else self._judge_baseline())

    def _judge_baseline(self) -> Report:
        task = load_task(ROOT / "tasks", self.name, TRACKS[self.kind])
        files = {task.target_file: task.operator.baseline(task.track.target)}
        return kernel_judge.evaluate(Request(task, files, self.cache))

    def _judge_honest(self) -> Report:
        from tests.gpu.submissions import submissions

        [found] = [each for each in submissions("honest") if each.name == self.name]
        header = {**found.header, "scope": "final"}
        return dataclasses.replace(found, header=header).judge(self.cache)


def main() -> None:
    """Measure each set, and write the file of results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=20, help="verdicts of each set")
    parser.add_argument("--busy", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--kind", choices=TRACKS, default="cpu")
    parser.add_argument("--operators", nargs="*", default=OPERATORS)
    parser.add_argument("--honest", action="store_true", help="on a GPU: other kernels too")
    parser.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    output = options.output or ROOT / f"benchmarks/results/noise-{options.kind}.json"
    ends = time.monotonic() + options.within
    results: dict[str, Any] = {"command": f"python {' '.join(sys.argv)}", "at": now(), "sets": {}}

    def keep(name: str, reports: Sequence[Report]) -> None:
        """Write the file anew with a set, so that nothing is lost where a command is ended."""
        results["fingerprint"] = to_json(reports[0].fingerprint)
        results["sets"][name] = summary(reports, name)
        write_json(output, results)

    with ExitStack() as stack:
        devices = stack.enter_context(judges(options.kind))
        results["devices"] = len(devices)
        built = stack.enter_context(building(options.cache)) if options.honest else {}
        for loops in options.busy:
            names = [options.operators[n % len(options.operators)] for n in range(options.repeats)]
            works = [Work(name, options.kind, options.cache) for name in names]
            with busy(loops):
                judge_all(devices, works, ends, partial(keep, f"{loops} busy loops"))
        works = [Work(name, options.kind, options.cache, honest=True) for name in built]
        prepare = {name: future.result for name, future in built.items()}
        judge_all(devices, works, ends, partial(keep, HONEST), prepare)
    for name, found in results["sets"].items():
        print(name, {key: value for key, value in found.items() if key != "verdicts"})


@contextmanager
def judges(kind: str) -> Iterator[list[ProcessPoolExecutor]]:
    """Start a process for each GPU, which sees no other one, or one for the CPU.

    Where there are enough cores, each has a share of them, and this process keeps one for builds.
    """
    gpus = gpu_files.measured(device_kind.gpu_count()).names if kind == device_kind.GPU else ()
    parts = shares(len(gpus) + 1) if gpus else [frozenset(os.sched_getaffinity(0))] * 2
    spawning = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        pools = []
        for gpu, cores in zip(gpus or ("",), parts, strict=False):
            if gpu:
                os.environ["CUDA_VISIBLE_DEVICES"] = gpu
            os.sched_setaffinity(0, cores)
            pools.append(stack.enter_context(ProcessPoolExecutor(1, spawning)))
            pools[-1].submit(os.getpid)  # it starts here, and inherits both
        if gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = gpus[0]
        os.sched_setaffinity(0, parts[-1])
        yield pools


@contextmanager
def building(cache: Path) -> Iterator[Mapping[str, Future[None]]]:
    """Build the honest kernels in the background; verdicts report their build errors."""
    from tests.gpu.submissions import Submission, submissions

    def build(submission: Submission) -> None:
        with suppress(SubmissionError):
            submission.build(cache)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        try:
            yield {each.name: pool.submit(build, each) for each in submissions("honest")}
        finally:
            pool.shutdown(cancel_futures=True)


def judge_all(
    devices: Sequence[ProcessPoolExecutor],
    works: Sequence[Work],
    ends: float,
    keep: Callable[[Sequence[Report]], None],
    prepare: Mapping[str, Callable[[], object]] | None = None,
) -> None:
    """Judge `works`, one at a time on each device, until the time is over.

    `keep` gets all reports after each verdict. What cannot be judged is printed and left out.
    """
    waiting, reports, keeping = deque(works), list[Report](), threading.Lock()

    def serve(device: ProcessPoolExecutor) -> None:
        while time.monotonic() < ends:
            try:
                work = waiting.popleft()
            except IndexError:
                return
            try:
                (prepare or {}).get(work.name, bool)()
                report = from_json(Report, device.submit(work.judge).result())
            except BrokenExecutor:  # its process was killed
                waiting.append(work)
                return
            except Exception as error:
                print(work.name, f"not judged: {type(error).__name__}: {error}", flush=True)
                continue
            with keeping:
                reports.append(report)
                print(len(reports), work.name, line_of(report), flush=True)
                keep(reports)

    with ThreadPoolExecutor(len(devices)) as threads:
        list(threads.map(serve, devices))


def line_of(report: Report) -> str:
    """Return a verdict in one line."""
    if report.verdict is not Verdict.PASSED:
        return f"{report.verdict}: {report.message}"
    spans = " ".join(f"{i.speedup:.3f} [{i.low:.3f}, {i.high:.3f}]" for i in intervals(report))
    return f"{spans}{' noisy' if report.noisy else ''} {report.seconds['total']:.1f} s"


def intervals(report: Report) -> list[Interval]:
    return [interval for interval in (report.seen, report.unseen) if interval]


def summary(reports: Sequence[Report], name: str) -> dict[str, Any]:
    """Return the counts and means of a set of verdicts, and each verdict's figures."""
    passed = [report for report in reports if report.verdict is Verdict.PASSED]
    cases = [m for r in passed for g in r.gates for m in g.measurements]
    inconclusive = sum(report.verdict is Verdict.INCONCLUSIVE for report in reports)
    found: dict[str, Any] = {
        "verdicts_of_set": len(reports),
        "inconclusive": inconclusive,
        "other": sum(r.verdict not in (Verdict.PASSED, Verdict.INCONCLUSIVE) for r in reports),
        "noisy": sum(report.noisy for report in passed),
        "cases": len(cases),
        "noisy_cases": sum(m.noisy for m in cases),
        "median_seconds": statistics.median(report.seconds["total"] for report in reports),
        "most_seconds": max(report.seconds["total"] for report in reports),
    }
    if name != HONEST:
        found |= of_baselines(passed, inconclusive)
    return {**found, "verdicts": [figures(report) for report in reports]}


def of_baselines(passed: Sequence[Report], inconclusive: int) -> dict[str, Any]:
    """Return how well the verdicts on unchanged baselines read 1."""
    found: dict[str, Any] = {}
    cases = [m for r in passed for g in r.gates for m in g.measurements]
    for name, measured in (
        ("seen", [report.seen for report in passed if report.seen]),
        ("unseen", [report.unseen for report in passed if report.unseen]),
        ("case", cases),
    ):
        if measured:
            found[f"mean_{name}"] = statistics.geometric_mean(each.speedup for each in measured)
            found[f"{name}_intervals_that_hold_1"] = sum(
                each.low <= 1 <= each.high for each in measured
            )
    held = [all(i.low <= 1 <= i.high for i in intervals(report)) for report in passed]
    far = [
        report
        for report in passed
        if not report.noisy and any(not FAR[0] <= i.speedup <= FAR[1] for i in intervals(report))
    ]
    return {
        **found,
        "hold_1_or_inconclusive": sum(held) + inconclusive,
        "far_without_mark": len(far),
    }


def figures(report: Report) -> dict[str, Any]:
    device = report.fingerprint.get("device", {})
    return {
        "task": report.task,
        "device": device.get("uuid", device.get("name", "")),
        "verdict": report.verdict.value,
        "message": report.message,
        "seen": to_json(report.seen),
        "unseen": to_json(report.unseen),
        "noisy": report.noisy,
        "seconds": report.seconds["total"],
    }


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Run so many endless loops on any core."""
    processes = [multiprocessing.Process(target=spin, daemon=True) for _ in range(loops)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def spin() -> None:
    while True:
        pass


if __name__ == "__main__":
    main()
