"""Submissions for a CPU: tricks and honest controls, and how each is judged."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import evaluation
from evaluation.judge.request import Request
from evaluation.kinds.kernel.judge import evaluate
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.spec import Task
from evaluation.types import Report, Verdict

HERE = Path(__file__).parent
OPERATORS = HERE / "operators"
RIGHT = {
    ".cpp": """\
#include "honest.h"

extern "C" int centred(const centred_args* args) { return honest(args); }
""",
    ".py": "def centred(x, scale):\n    return (x - x.mean(-1, keepdim=True)) * scale\n",
}
"""Honest counterparts of the tricks, by suffix."""


@dataclass(frozen=True)
class Submission:
    """One source file; the header of a trick is comments `word: text`, see `test_hostile`."""

    path: Path
    source: str
    header: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Submission:
        source = path.read_text()
        header = dict(re.findall(r"^(?://|#) (\w+): (.*)$", source, re.MULTILINE))
        return cls(path, source, header)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def files(self) -> dict[str, str]:
        """Submitted files, with the correct kernel as a header in C++."""
        files = {self.task().target_file: self.source}
        if self.path.suffix == ".cpp":
            files["honest.h"] = (HERE / "honest.h").read_text()
        return files

    def counterpart(self) -> Submission:
        """Return the honest submission whose work a trick pretends to do faster."""
        suffix = self.path.suffix
        return Submission(self.path.with_name(f"honest{suffix}"), RIGHT[suffix], {})

    def task(self) -> Task:
        task = load_task(
            OPERATORS, "centred", "cpp-to-cpp" if self.path.suffix == ".cpp" else "cpp-to-torch"
        )
        if "seconds" not in self.header:
            return task
        limits = dataclasses.replace(task.operator.limits, seconds=float(self.header["seconds"]))
        return dataclasses.replace(task, operator=dataclasses.replace(task.operator, limits=limits))

    def judge(
        self, cache: Path, paths: Mapping[str, object] | None = None, scope: str = "final"
    ) -> Report:
        """Return the report on this source, with the placeholders of `paths` replaced."""
        files = self.files
        for placeholder, path in (paths or {}).items():
            files = {file: text.replace(placeholder, str(path)) for file, text in files.items()}
        return evaluate(Request(self.task(), files, cache, scope=scope))


def submissions(folder: str) -> list[Submission]:
    """Return the submissions of a folder, by name."""
    return [Submission.read(path) for path in sorted((HERE / folder).iterdir())]


def paths(cache: Path, outside: Path) -> dict[str, object]:
    """Return paths of this machine by their placeholders in a trick's source."""
    return {
        "@TASKS@": OPERATORS,
        "@TESTS@": HERE,
        "@CACHE@": cache,
        "@OUTSIDE@": outside,
        "@PACKAGE@": Path(evaluation.__file__).parent,
        "@PYTHON@": Path(sys.executable).resolve(),
    }


def conclusion(report: Report) -> str:
    """Return `failed/WRONG_VALUES in correctness`, or `passed`."""
    if report.verdict is Verdict.PASSED:
        return "passed"
    last = report.gates[-1]
    return f"{report.verdict.value}/{last.cause} in {last.gate.value}"


def details(report: Report) -> str:
    """Return every gate's message, for the output of a failed test."""
    lines = [f"{g.gate}: {g.verdict} {g.message} {dict(g.private)}" for g in report.gates]
    return "\n".join([conclusion(report), *lines])
