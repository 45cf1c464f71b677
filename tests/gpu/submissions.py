"""Submissions for a GPU: source files with a header, and how each is judged."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from evaluation.code.languages import languages
from evaluation.device_kind import GPU, candidate_cores
from evaluation.errors import SubmissionError
from evaluation.judge.request import Request
from evaluation.kinds.kernel import builds
from evaluation.kinds.kernel.judge import evaluate
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.spec import Task
from evaluation.types import Report, Verdict

HERE = Path(__file__).parent
OPERATORS = HERE / "operators"
TASKS = HERE.parents[1] / "tasks"
RIGHT = {
    "cuda": """\
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    return right(args, stream);
}
""",
    "triton": "def centred(x, out, scale):\n    right(x, out, scale)\n",
    "torch": "def centred(x, scale):\n    return right(x, scale)\n",
}
"""Honest counterparts of the tricks, by language: the correct kernel beside them, and no more."""
RIGHT_OF = {
    "product": """\
#include "product_honest.cuh"

extern "C" int product(const product_args* args, cudaStream_t stream) {
    return honest(args, stream);
}
""",
    "structured_product": """\
#define STRUCTURED
#include "product_honest.cuh"

extern "C" int product(const product_args* args, cudaStream_t stream) {
    return honest(args, stream);
}
""",
    "keyed": """\
#include "keyed_honest.cuh"

extern "C" int keyed(const keyed_args* args, cudaStream_t stream) {
    return honest(args, stream);
}
""",
}
"""Those of the tricks with another operator, in CUDA; a product in Triton has `exact_dot`."""


@dataclass(frozen=True)
class Submission:
    """One source file, `name.language.suffix`, and its header: comments `word: text` at its top.

    - `operator`: its operator, of `operators` here or of `tasks`; by default `centred`
    - `scope`: `final` for one that fails hidden cases; by default `round`
    - `seconds`: a time limit, for one that never returns or that compiles in a call
    - `captured`: `no` for honest work that cannot be captured in a CUDA graph
    - `expect`, `gains`, `triage`: see `test_hostile`
    """

    path: Path
    source: str
    header: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Submission:
        source = path.read_text()
        comments = re.match(r"(?:(?://|#) .*\n)*", source)
        assert comments is not None
        header = dict(re.findall(r"^(?://|#) (\w+): (.*)$", comments.group(), re.MULTILINE))
        return cls(path, source, header)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def language(self) -> str:
        return self.path.name.split(".")[1]

    @property
    def seconds(self) -> float | None:
        return float(self.header["seconds"]) if "seconds" in self.header else None

    @property
    def files(self) -> dict[str, str]:
        """Submitted files, with the correct kernel of its language for a trick.

        It is a header in CUDA, and precedes the trick's source in Python.
        """
        source, right = self.source, self.path.with_name(f"right.{self.language}{self.path.suffix}")
        beside = {}
        if right.exists() and self.path.suffix == ".py":
            source = f"{right.read_text()}\n\n{source}"
        elif right.exists() and self.path.suffix == ".cu":
            headers = {h.name: h.read_text() for h in self.path.parent.glob("*.cuh")}
            chosen = {name for name in headers if f'"{name}"' in source}
            chosen |= {n for n in headers for name in chosen if f'"{n}"' in headers[name]}
            beside = {"right.cuh": right.read_text(), **{n: headers[n] for n in chosen}}
        return {self.task().target_file: source, **beside}

    def counterpart(self) -> Submission:
        """Return the honest submission whose work a trick pretends to do faster."""
        path = self.path.with_name(f"honest.{self.language}{self.path.suffix}")
        operator = self.header.get("operator", "centred")
        if operator in RIGHT_OF and self.language == "triton":
            return Submission.read(HERE / "honest" / "exact_dot.triton.py")
        if operator in RIGHT_OF:
            return Submission(path, RIGHT_OF[operator], {"operator": operator})
        return Submission(path, RIGHT[self.language], {})

    def task(self) -> Task:
        operator = self.header.get("operator", "centred")
        if (OPERATORS / operator).is_dir():
            return load_task(OPERATORS, operator, f"cuda-to-{self.language}", GPU)
        return load_task(TASKS, operator, f"torch-to-{self.language}", GPU)

    def check(self) -> None:
        """Run the static analysis. Raises: Rejected."""
        task = self.task()
        languages()[self.language].check(self.files, task)

    def build(self, cache: Path) -> builds.Build:
        return builds.build(self.task(), self.language, self.files, cache)

    def judge(self, cache: Path, paths: Mapping[str, object] | None = None) -> Report:
        """Return the report on this source, with the placeholders of `paths` replaced."""
        task, files = self.task(), self.files
        for placeholder, path in (paths or {}).items():
            files = {file: text.replace(placeholder, str(path)) for file, text in files.items()}
        if self.seconds is not None:
            limits = dataclasses.replace(task.operator.limits, seconds=self.seconds)
            task = dataclasses.replace(
                task, operator=dataclasses.replace(task.operator, limits=limits)
            )
        return evaluate(Request(task, files, cache, scope=self.header.get("scope", "round")))


def submissions(folder: str) -> list[Submission]:
    """Return the submissions of a folder, by name."""
    paths = sorted(path for path in (HERE / folder).iterdir() if path.suffix in (".cu", ".py"))
    return [Submission.read(path) for path in paths if not path.name.startswith("right.")]


def build_all(chosen: Iterable[Submission], cache: Path) -> None:
    """Build submissions in parallel; their verdicts report build errors."""

    def attempt(submission: Submission) -> None:
        with suppress(SubmissionError):
            submission.build(cache)

    with ThreadPoolExecutor(len(candidate_cores())) as pool:
        list(pool.map(attempt, chosen))


def conclusion(report: Report) -> str:
    """Return `passed`, or text such as `failed/WRONG_VALUES in correctness`."""
    if report.verdict is Verdict.PASSED:
        return "passed"
    last = report.gates[-1]
    return f"{report.verdict.value}/{last.cause} in {last.gate.value}"


def recorded(report: Report) -> dict[str, object]:
    """Return the properties to record of a report: conclusion and speedup."""
    speedup = {"speedup": round(report.seen.speedup, 3)} if report.seen else {}
    return {"got": conclusion(report), **speedup}


def details(report: Report) -> str:
    """Return every gate's message, for the output of a failed test."""
    lines = [f"{g.gate}: {g.verdict} {g.message} {dict(g.private)}" for g in report.gates]
    return "\n".join([conclusion(report), *lines, str(dict(report.seconds))])
