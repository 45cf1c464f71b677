"""Ablation: which tricks escape where a single mechanism of the judge is turned off.

    python benchmarks/ablation.py [--device cpu|gpu] [--mechanism NAME ...] [--tricks PATTERN ...]
        [--cells NAME:PATTERN ...] [--share N/M] [--join FILE ...] [--seconds SECONDS] [--keep]
        [--precision] [--output FILE]

Each trick of the suite is judged with every mechanism on, static analysis off. Those that compile,
integrity or correctness refuse do not concern timing and are left, unless one of the mechanisms
below refused them. The others are judged with each mechanism off. Where another mechanism refused a
trick, it still does, so that cell is not tried.

A trick escapes if it passes and its best interval begins more than 1 % above the end of its honest
counterpart's, of as many verdicts on each. Such a cell is repeated, and so is one that slows the
baseline, since that works at times only. A trick that must be refused may pass without a gain: it
shows that something can be done, not that it pays on so small a case or so busy a machine.

An H200 takes about half an hour, so four calls with `--seconds 540`. On several GPUs each judges
a share of the tricks into a file of its own, and `--join` adds these to FILE. In less time,
`--cells` judges the tricks of a pattern with one mechanism off, and with all on; NAME is `none` for
the latter alone. Those of an earlier source, which `--keep` keeps, are judged again.

With `--precision` no trick is judged, but honest code, often and with single mechanisms off. A
mechanism also earns its place where times are less precise without it: intervals are much wider,
launches find their inputs in a cache, or an empty window, which a process that replies at once
saves, takes more of a window than the bound.

No verdict is started later than SECONDS after the start. FILE is continued by the same command.
Where the judge's source has changed since, it is begun anew; with `--keep` the cells of the earlier
source stay, and each names its source.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pytest

from benchmarks.mechanisms import MECHANISMS, Mechanism, Refusals
from benchmarks.shared import ROOT, now, provenance, source_of_judge, write_json
from evaluation.bench.devices import detect
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.timing.intervals import half_width
from evaluation.bench.timing.plan import plan_for
from evaluation.bench.timing.window import WindowTimer
from evaluation.code.cache_folder import default_cache
from evaluation.code.languages import languages
from evaluation.device_kind import CPU, GPU
from evaluation.kinds.kernel import judge as kernel_judge
from evaluation.types import GateName, Report, Verdict
from tests import gains

ALL_ON = "none"
"""The name of the cells with every mechanism on."""
MAX_VERDICTS = 4
"""Verdicts on a trick that seems to escape."""
TRIES = 3
"""Verdicts with every mechanism on, on a trick that must be refused, until one refuses it."""
PRECISION_VERDICTS = {CPU: 6, GPU: 40}
"""Verdicts on honest code with a mechanism off. On a CPU their windows are as long as any."""
WIDER, WARMER = 1.5, 0.9
"""Ratios of half widths, and of times per launch, from which on a mechanism matters."""
SLOWS_THE_BASELINE = "19"
"""The row of tricks that work at times only, so that they are judged three times at least."""
PERFORMANCE, GENERALIZATION = GateName.PERFORMANCE, GateName.GENERALIZATION
NOT_TIMING = (GateName.INTEGRITY, GateName.COMPILE, GateName.CORRECTNESS, GENERALIZATION)


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the missing cells within the time; the exit code is 0 once none is missing."""
    options = parse(arguments)
    ends = time.monotonic() + options.seconds
    device = detect.device_for(options.device, options.cache)
    about = provenance(device)
    ablation = Ablation(options.device, options.cache, options.output, about, options.keep)
    tricks = [
        trick
        for trick in ablation.suite.submissions("hostile" if options.device == GPU else "tricks")
        if any(fnmatchcase(trick.name, pattern) for pattern in options.tricks)
    ]
    number, shares = options.share
    tricks = tricks[number - 1 :: shares]
    if options.join:
        ablation.join(options.join)
        return 0
    chosen = [m for m in MECHANISMS if options.device in m.kinds and m.name in options.mechanism]
    if options.precision:
        with ablation:
            for mechanism in ablation.unmeasured(chosen):
                ablation.repeat_honest(tricks[0].counterpart(), mechanism)
        return 0
    with ablation:
        if options.device == GPU:
            ablation.suite.build_all(tricks, options.cache)
        for mechanism in (None, *chosen):
            for trick in tricks:
                if not is_named(options, trick, mechanism):
                    continue
                if not ablation.needed(trick, mechanism, again=bool(options.cells)):
                    continue
                if time.monotonic() > ends:
                    print(
                        f"time is over, run the same command again for the rest: {options.output}"
                    )
                    return 1
                ablation.judge(trick, mechanism)
    for mechanism in chosen:
        row = ablation.table()[mechanism.name]
        print(
            f"{mechanism.name}: {row['tried']} tried, {', '.join(row['escapes']) or 'no'} escapes"
        )
    return 0


def is_named(options: argparse.Namespace, trick: Any, mechanism: Mechanism | None) -> bool:
    """Return whether the options name a cell. Each cell needs that with every mechanism on."""
    return not options.cells or any(
        fnmatchcase(trick.name, pattern) and (mechanism is None or name == mechanism.name)
        for name, pattern in options.cells
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [mechanism.name for mechanism in MECHANISMS]
    parser.add_argument("--device", choices=(CPU, GPU), default=None)
    parser.add_argument("--mechanism", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--tricks", nargs="+", default=["*"], metavar="PATTERN")
    parser.add_argument("--cells", nargs="+", type=_cells, default=[], metavar="NAME:PATTERN")
    parser.add_argument("--share", type=_share, default=(1, 1), metavar="N/M")
    parser.add_argument("--join", type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--precision", action="store_true")
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    options.cache = options.cache.absolute()
    if options.cells:
        options.mechanism, options.tricks = zip(*options.cells, strict=True)
    if options.device is None:
        options.device = GPU if detect.devices(options.cache, (GPU,)) else CPU
    options.output = options.output or ROOT / f"benchmarks/results/ablation-{options.device}.json"
    return options


def _share(text: str) -> tuple[int, int]:
    """Return the number of a share and of all, of `1/4`."""
    number, _, shares = text.partition("/")
    return int(number), int(shares)


def _cells(text: str) -> tuple[str, str]:
    """Return the name of a mechanism, or ALL_ON, and a pattern, of `values:call_*`."""
    name, colon, pattern = text.partition(":")
    if not colon or name not in (ALL_ON, *(mechanism.name for mechanism in MECHANISMS)):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:PATTERN of a mechanism")
    return name, pattern


class Windows:
    """Windows of candidates, recorded while a patch holds.

    Of all times the least counts: other work on the machine only adds to it.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._launches: dict[str, list[float]] = {}
        self._empty: list[float] = []
        run = WindowTimer.window

        def recorded(timer: WindowTimer) -> float:
            launch_ns = run(timer)
            if not timer.trusted:
                self._launches.setdefault(timer.where, []).append(launch_ns)
                self._empty.append(timer.empty)
            return launch_ns

        patch.setattr(WindowTimer, "window", recorded)

    @property
    def launch_ns(self) -> float:
        """Return the time of a launch: the geometric mean over the cases."""
        return statistics.geometric_mean(map(min, self._launches.values()))

    @property
    def empty_ns(self) -> float:
        """Return the time of a window without launches."""
        return min(self._empty)


class Ablation:
    """The cells of one table, in a file that is written after each."""

    def __init__(
        self, kind: str, cache: Path, output: Path, about: dict[str, Any], keep: bool = False
    ) -> None:
        self.kind, self.cache, self.output, self.about = kind, cache, output, about
        if kind == GPU:
            from tests.gpu import conftest, submissions
        else:
            from tests.evaluation import conftest  # type: ignore[no-redef]
            from tests.evaluation.hostile import submissions  # type: ignore[no-redef]
        self.suite, self._conftest = submissions, conftest
        self.cells: dict[str, dict[str, dict[str, Any]]] = {}
        self.precision: dict[str, dict[str, Any]] = {}
        """Spread of verdicts on honest code, by the name of the mechanism that is off."""
        self._source = source_of_judge()
        self._window_seconds = plan_for(kind, final=False).window_seconds
        if output.is_file():
            known = json.loads(output.read_text())
            if keep or known["judge"]["source"] == self._source:
                self.cells, self.precision = known["cells"], known.get("precision", {})
                for cell in (cell for cells in self.cells.values() for cell in cells.values()):
                    cell.setdefault("source", known["judge"]["source"])
            else:
                print(f"{output} is of another judge and begun anew")
        self._honest: dict[tuple[str, ...], list[Report]] = {}
        self._patches = pytest.MonkeyPatch()

    def needed(self, trick: Any, mechanism: Mechanism | None, again: bool = False) -> bool:
        """Return whether a cell of interest is missing, or with `again` of an earlier judge."""
        cells = self.cells.get(trick.name, {})
        known = cells.get(mechanism.name if mechanism else ALL_ON)
        if known and not (again and known["source"] != self._source):
            return False
        if mechanism is None:
            return True
        all_on = cells[ALL_ON]
        if all_on["refused_by"] is None and all_on["gate"] in (PERFORMANCE, GENERALIZATION):
            return not mechanism.raised_in  # what refuses nothing itself may have made it fail
        return all_on["gate"] is None or all_on["refused_by"] == mechanism.name

    def unmeasured(self, chosen: Sequence[Mechanism]) -> list[Mechanism | None]:
        """Return those without which times of honest code are not known; None is all on."""
        known = {name for name, row in self.precision.items() if row["source"] == self._source}
        return [each for each in (None, *chosen) if (each.name if each else ALL_ON) not in known]

    def join(self, files: Sequence[Path]) -> None:
        """Add the cells and figures of other files, and write the file."""
        for file in files:
            data = json.loads(file.read_text())
            self.precision |= data["precision"]
            for trick, cells in data["cells"].items():
                self.cells.setdefault(trick, {}).update(cells)
        write_json(self.output, self._data(), indent=1)

    def judge(self, trick: Any, mechanism: Mechanism | None) -> None:
        """Judge one cell and write the file."""
        name = mechanism.name if mechanism else ALL_ON
        started = time.monotonic()
        with pytest.MonkeyPatch.context() as patch:
            if mechanism:
                mechanism.off(patch)
            if self.kind == GPU or "gains" not in trick.header:
                self._conftest.hurry(patch)  # a gain on a CPU shows in windows as long as any
            cell = self._cell(trick, name)
        cell["seconds"] = round(time.monotonic() - started, 1)
        cell["source"] = self._source
        self.cells.setdefault(trick.name, {})[name] = cell
        print(f"{now()} {name} {trick.name}: {json.dumps(cell)}", flush=True)
        write_json(self.output, self._data(), indent=1)

    def repeat_honest(self, honest: Any, mechanism: Mechanism | None) -> None:
        """Judge honest code several times with a mechanism off, and write the file."""
        name = mechanism.name if mechanism else ALL_ON
        with pytest.MonkeyPatch.context() as patch:
            if mechanism:
                mechanism.off(patch)
            if self.kind == GPU:
                self._conftest.hurry(patch)
            honest.judge(self.cache)  # the first one starts what the others find
            windows = Windows(patch)
            judged = [honest.judge(self.cache) for _ in range(PRECISION_VERDICTS[self.kind])]
        seen = [report.seen for report in judged]
        logs = [math.log(each.speedup) for each in seen if each]
        widths = [half_width(each) for each in seen if each]
        self.precision[name] = {
            "verdicts": len(logs),
            "noisy": sum(report.noisy for report in judged),
            "spread": round(statistics.stdev(logs), 5),
            "half_width": round(statistics.median(widths), 5),
            "launch_ns": round(windows.launch_ns, 1),
            "empty_share": round(windows.empty_ns / 1e9 / self._window_seconds, 5),
            "source": self._source,
        }
        print(f"{now()} {name} {honest.name}: {json.dumps(self.precision[name])}", flush=True)
        write_json(self.output, self._data(), indent=1)

    def _cell(self, trick: Any, name: str) -> dict[str, Any]:
        """Return verdicts, gain and escape of a trick with what is on now."""
        paths = {}
        if self.kind == CPU:
            paths = self.suite.paths(self.cache, Path(self._folder.name) / "outside")
        judge = functools.partial(trick.judge, self.cache, paths)
        all_on = self.cells.get(trick.name, {}).get(ALL_ON)
        if self.kind == CPU and all_on and all_on["gate"] != GENERALIZATION:
            judge = functools.partial(judge, scope="round")
        self._refusals.clear()
        first, tries = judge(), 1
        while name == ALL_ON and "expect" in trick.header and tries < TRIES:
            if first.verdict is not Verdict.PASSED:
                break
            first, tries = judge(), tries + 1  # on a busy machine it may not reach its trick
        compared = gains.Comparison([first])
        refused = first.gates[-1].gate if first.verdict is not Verdict.PASSED else None
        least = 3 if trick.header["row"] == SLOWS_THE_BASELINE and refused not in NOT_TIMING else 1
        hidden = refused is GateName.GENERALIZATION
        by = self._refusals.mechanism(first.message, hidden) if refused else None
        if refused is None or least > 1:
            counterpart = trick.counterpart()
            long = str("gains" in trick.header)
            key = (name, long, counterpart.name, counterpart.header.get("operator", ""))
            compared.honest = self._honest.setdefault(key, [])
            while len(compared.honest) < 2:
                compared.honest.append(counterpart.judge(self.cache))
            while len(compared.trick) < MAX_VERDICTS:
                enough = len(compared.trick) >= least and compared.gain <= gains.BOUND
                if enough:
                    break
                compared.trick.append(judge())
                if len(compared.honest) < len(compared.trick):
                    compared.honest.append(counterpart.judge(self.cache))
        if "gains" in trick.header and any(map(gains.speedup, compared.trick)):
            refused, by = None, None  # it works at times
        gain = round(compared.gain, 4) if compared.honest else None
        return {
            "gate": refused and refused.value,
            "refused_by": by,
            "got": [self.suite.conclusion(report) for report in compared.trick],
            "message": first.message[:200] if refused else "",
            "speedups": [round(gains.speedup(report), 4) for report in compared.trick],
            "low": [round(gains.low(report), 4) for report in compared.trick],
            "noisy": sum(report.noisy for report in compared.trick),
            "honest": [round(gains.speedup(report), 4) for report in compared.honest],
            "honest_high": [round(gains.high(report), 4) for report in compared.honest],
            "gain": gain,
            "passes": "expect" in trick.header and refused is None,
            "escapes": gain is not None and gain > gains.BOUND,
        }

    def table(self) -> dict[str, dict[str, Any]]:
        """Return, by mechanism, how many tricks were tried without it, and those that get through.

        One that gets through with every mechanism on as well is not counted.
        """
        rows = {}
        for name, title in ((m.name, m.title) for m in MECHANISMS if self.kind in m.kinds):
            tried = [trick for trick, cells in self.cells.items() if name in cells]

            def newly(what: str, name: str = name, tried: Sequence[str] = tried) -> list[str]:
                cells = self.cells
                return [t for t in tried if cells[t][name][what] and not cells[t][ALL_ON][what]]

            escapes = newly("escapes")
            rows[name] = {
                "title": title,
                "refuses": [t for t, c in self.cells.items() if c[ALL_ON]["refused_by"] == name],
                "tried": len(tried),
                "escapes": escapes,
                "passes": [trick for trick in newly("passes") if trick not in escapes],
                "less_precise": self._is_less_precise(name),
            }
        return rows

    def _is_less_precise(self, name: str) -> bool:
        """Return whether times of honest code are less precise without a mechanism."""
        if name not in self.precision:
            return False
        without, with_all = (self.precision[key] for key in (name, ALL_ON))
        quiet = not (without["noisy"] or with_all["noisy"])
        return bool(
            (quiet and without["half_width"] > WIDER * with_all["half_width"])
            or without["launch_ns"] < WARMER * with_all["launch_ns"]
            or without["empty_share"] > gains.BOUND + with_all["empty_share"]
        )

    def _data(self) -> dict[str, Any]:
        found = {trick: cells[ALL_ON] for trick, cells in self.cells.items() if ALL_ON in cells}
        escapes = [trick for trick, cell in found.items() if cell["escapes"]]
        passes = [trick for trick, cell in found.items() if cell["passes"]]
        return {
            "command": f"python benchmarks/ablation.py --device {self.kind}",
            **self.about,
            "bound": gains.BOUND,
            "gates": Counter(cell["gate"] or "passed" for cell in found.values()),
            "escapes_with_all_on": escapes,
            "passes_with_all_on": [trick for trick in passes if trick not in escapes],
            "mechanisms": self.table(),
            "precision": self.precision,
            "cells": self.cells,
        }

    def __enter__(self) -> Ablation:
        """Start a fork server for all verdicts; few and short windows; no static analysis."""
        self._folder = tempfile.TemporaryDirectory()
        self._fork_server = ForkServer().__enter__()
        patch = self._patches
        patch.setenv("ARENA_TEST_SECRET", "not for candidates")
        patch.setattr(kernel_judge, "ForkServer", lambda: nullcontext(self._fork_server))
        self._refusals = Refusals(patch)
        for language in languages().values():
            patch.setattr(type(language), "check", lambda self, files, task: None)
        return self

    def __exit__(self, *raised: object) -> None:
        self._patches.undo()
        self._fork_server.__exit__(None, None, None)
        self._folder.cleanup()


if __name__ == "__main__":
    sys.exit(main())
