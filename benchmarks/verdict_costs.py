"""Costs of a change of the judge: verdicts of this checkout and of an earlier one, in turn.

The tasks are copied out of the checkout, and judged as those of another author. The baseline's own
source is the submission. Each checkout has one judge, which stays, and one
verdict before the first pair, so that builds and libraries are there. The order of a pair
alternates. Processor seconds are those of the judge and of all processes that it starts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

ROOT = Path(os.environ.get("JUDGE_CHECKOUT", Path(__file__).resolve().parent.parent))
TASKS = ("rms_norm/cpp-to-cpp", "softmax/cpp-to-cpp", "matmul/cpp-to-cpp", "swiglu/cpp-to-cpp")
SCOPES = ("round", "final")
FIGURES = ("processor", "wall")


def main() -> None:
    """Judge pairs, and write the file of results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("earlier", type=Path, nargs="?", help="a checkout of the code before")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--scopes", nargs="+", default=SCOPES)
    output = Path(__file__).resolve().parent / "results/verdict-costs-cpu.json"
    parser.add_argument("--output", type=Path, default=output)
    options = parser.parse_args()
    if not options.earlier:
        judge_lines()
        return
    rows: list[dict[str, Any]] = []
    with Judge(options.earlier) as before, Judge(ROOT) as after:
        for number in range(options.pairs + 1):
            for name in options.tasks:
                for scope in options.scopes:
                    pair = [("before", before), ("after", after)]
                    for side, judge in pair if number % 2 else reversed(pair):
                        found = {"pair": number, "side": side, **judge.verdict(name, scope)}
                        print(found, flush=True)
                        rows += [found] if number else []
            if rows:
                write(options, rows)


def write(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    from benchmarks.shared import now, write_json

    results = {
        "command": f"python benchmarks/verdict_costs.py EARLIER --pairs {options.pairs}",
        "at": now(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "change": changes(rows),
        "verdicts": rows,
    }
    write_json(options.output, results)
    print(json.dumps(results["change"], indent=2))


def changes(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the median ratio of a pair for each figure, by task and scope.

    That of all tasks is of the sums over the tasks of a pair.
    """
    names = (*dict.fromkeys(row["task"] for row in rows), "all")
    found: dict[str, dict[str, float]] = {}
    for scope in dict.fromkeys(row["scope"] for row in rows):
        for name in names:
            own = [r for r in rows if r["scope"] == scope and name in (r["task"], "all")]
            found[f"{name} {scope}"] = {figure: _ratio(own, figure) for figure in FIGURES}
    return found


def _ratio(rows: list[dict[str, Any]], figure: str) -> float:
    """Return the median over pairs of a figure of this checkout over that of the earlier one."""
    sums: dict[tuple[int, str], float] = {}
    for row in rows:
        key = row["pair"], row["side"]
        sums[key] = sums.get(key, 0.0) + row[figure]
    pairs = {pair for pair, _ in sums}
    return statistics.median(sums[pair, "after"] / sums[pair, "before"] for pair in pairs)


class Judge:
    """A judge of a checkout, in a process that stays."""

    def __init__(self, checkout: Path) -> None:
        environment = {**os.environ, "JUDGE_CHECKOUT": str(checkout.resolve())}
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            cwd=checkout,
            env=environment | {"PYTHONPATH": str(checkout.resolve())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def verdict(self, name: str, scope: str) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        print(json.dumps([name, scope]), file=self._process.stdin, flush=True)
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def judge_lines() -> None:
    """Judge what each line of stdin names, and print a line of figures for each."""
    from evaluation.bench.process.fork_server import ForkServer
    from evaluation.bench.process.handle import ProcessHandle
    from evaluation.judge.request import Request
    from evaluation.kinds.kernel import judge as kernel_judge
    from evaluation.kinds.kernel.load import load_task
    from evaluation.sandbox import procfs
    from evaluation.tasks.spec import folder_of

    ended = 0.0
    kill = ProcessHandle.kill

    def counted(self: ProcessHandle) -> None:
        nonlocal ended
        if not self._ended:
            ended += sum(map(procfs.cpu_time_ns, self.pids())) / 1e9
        kill(self)

    ProcessHandle.kill = counted  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as work, ForkServer() as fork_server:
        place, cache = Path(work) / "tasks", Path(work) / "cache"
        fork_server.prepare("torch")
        server = fork_server._process.pid

        def spent() -> float:
            alive = (server, *procfs.descendants(server))
            return time.process_time() + ended + sum(map(procfs.cpu_time_ns, alive)) / 1e9

        for line in sys.stdin:
            name, scope = json.loads(line)
            operator, _, track = name.partition("/")
            if not (place / operator).exists():
                shutil.copytree(folder_of(ROOT / "tasks", operator), place / operator)
            task = load_task(place, operator, track)
            files = {task.target_file: task.operator.baseline(task.track.target)}
            request = Request(task, files, cache, scope=scope)
            processor, wall = spent(), time.perf_counter()
            report = kernel_judge.evaluate(request, fork_server=fork_server)
            figures = {"processor": spent() - processor, "wall": time.perf_counter() - wall}
            found = {"task": name, "scope": scope, "verdict": report.verdict.value, **figures}
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
