"""Conversion of problems: their code runs in the sandbox alone, and what it wrote is checked."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evaluation.code.building import static_analysis
from evaluation.device_kind import CPU
from evaluation.errors import Broken, SubmissionError, TaskError
from evaluation.importers.files import Files
from evaluation.importers.suites import Problem, Suite
from evaluation.kinds.kernel.load import load_task
from evaluation.sandbox import containment, launch, untrusted_files
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import Policy
from evaluation.sandbox.resource_watch import ResourceUsage
from evaluation.tasks.spec import OPEN_TRACK

SECONDS = 480
"""Processor time of one conversion."""
MIN_SECONDS = 120.0
"""Time of a sandbox beside that of the conversions in it."""
BUSY_FACTOR = 40
"""Longest time of a conversion on a busy machine, in multiples of its processor time."""
LIMITS = ResourceUsage(6, 256, 6 << 30, 1000, 256 << 20, 500)
"""Processes, threads, memory and files of the conversions in one sandbox."""
MODULES = static_analysis.PURE_MODULES | {"torch"}
"""Modules that a problem may import: the judge runs its reference, as it runs those of ours."""
FILES = ("task.toml", "reference.py", "fitted.toml")
MAX_BYTES = 1 << 20
_PACKAGE = Path(__file__).resolve().parents[1]
_SCRIPT = _PACKAGE / "importers" / "sandboxed" / "main.py"


class Refused(Exception):
    """Raised for a problem that cannot be imported; the message is the reason.

    `final` is false where another attempt could end in another way.
    """

    def __init__(self, message: str, final: bool = True) -> None:
        super().__init__(message)
        self.final = final


@dataclass(frozen=True)
class Converted:
    """The files of a task, and what was found out about it."""

    files: dict[str, str]
    flags: tuple[str, ...]
    fingerprint: str


def convert_all(
    problems: Sequence[tuple[Problem, Files]], suite: Suite, seconds: int = SECONDS
) -> Iterator[Converted | Refused]:
    """Yield what each problem with its files came to, in order.

    One sandbox serves all of them, because imports take longer than a conversion. A problem without
    a result there, as after another one that broke its process, is converted alone.
    """
    refused: dict[str, Refused] = {}
    for problem, files in problems:
        try:
            if reason := suite.left_out.get(problem.category):
                raise Refused(reason)
            name, judged = problem.path.rpartition("/")[2], suite.judged(files.source)
            same_lines = files.source.startswith(judged)
            check_source(name if same_lines else f"the judged part of {name}", judged)
        except Refused as error:
            refused[problem.name] = error
    left = [each for each in problems if each[0].name not in refused]
    found = run(left, suite, seconds) if left else {}
    for problem, files in problems:
        if problem.name in refused:
            yield refused[problem.name]
            continue
        result = found.get(problem.name)
        if result is None and len(left) > 1:
            result = run([(problem, files)], suite, seconds).get(problem.name)
        yield result or Refused("its code ended the process of its conversion", final=False)


def check_source(name: str, source: str) -> None:
    """Raise Refused for a source that a submission in PyTorch may not be either."""
    for diagnostic in static_analysis.syntax_errors({name: source}):
        raise Refused(f"not valid Python: line {diagnostic.line}: {diagnostic.message}")
    try:
        static_analysis.check_source(static_analysis.Source(name, source), MODULES)
    except SubmissionError as error:
        raise Refused(error.message) from None


def run(
    problems: Sequence[tuple[Problem, Files]], suite: Suite, seconds: int
) -> dict[str, Converted | Refused]:
    """Run the code of problems in one sandbox, and return what it wrote, checked, by name."""
    about = {"form": suite.form, "suite": suite.slug, "precision": suite.precision}
    asked = [{**asdict(problem), **about, "files": asdict(files)} for problem, files in problems]
    with untrusted_files.scratch() as folder:
        requests, work = folder / "requests.json", folder / "work"
        work.mkdir()
        (folder / "evaluation").symlink_to(_PACKAGE)  # without the rest of its folder
        text = json.dumps({"problems": asked, "seconds": seconds})
        requests.write_text(text, encoding="utf-8")
        policy = Policy(
            features=isolation_features(),
            readable=(sys.prefix, sys.base_prefix, str(_PACKAGE), str(folder)),
            writable=(str(work),),
        )
        completed = launch.run(
            [sys.executable, "-I", str(_SCRIPT), str(requests), str(work)],
            policy,
            timeout=MIN_SECONDS + BUSY_FACTOR * seconds * len(problems),
            cwd=work,
            env={"TMPDIR": str(work), "HOME": str(work)},
            limits=LIMITS,
        )
        if completed.returncode == containment.FAILED_TO_START:
            raise Broken(f"the sandbox did not start: {completed.stdout[-300:]}")
        results = {p.name: _read(work / p.name, suite.judged(f.source)) for p, f in problems}
        found = {name: result for name, result in results.items() if result is not None}
        if len(problems) == 1 and not found:
            last = completed.stdout.strip().rpartition("\n")[2][-300:]
            reason = f"its code {completed.exceeded}" if completed.exceeded else ""
            reason = reason or f"its code ended the process with code {completed.returncode}"
            found[problems[0][0].name] = Refused(f"{reason}: {last}" if last else reason, False)
        return found


def _read(folder: Path, source: str) -> Converted | Refused | None:
    """Return what was written for a problem; None where there is no result."""
    try:
        found = json.loads(untrusted_files.read(folder / "result.json", MAX_BYTES))
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return Refused("its code replaced the result")
    if reason := found.get("refused"):
        return Refused(str(reason)[:600], found.get("final") is not False)
    try:
        files = _files(folder, source)
    except Refused as refused:
        return refused
    return Converted(files, _flags(found), str(found.get("fingerprint", ""))[:64])


def _flags(found: dict[str, Any]) -> tuple[str, ...]:
    flags = found.get("flags")
    return tuple(str(flag)[:200] for flag in flags[:20]) if isinstance(flags, list) else ()


def _files(folder: Path, source: str) -> dict[str, str]:
    """Return the written files. Raises Refused where they are not a task of this problem."""
    files = {}
    for name in FILES:
        content = untrusted_files.read(folder / name, MAX_BYTES + 1)
        if not content or len(content) > MAX_BYTES:
            raise Refused(f"its code left no proper {name}")
        files[name] = content.decode("utf-8", "replace")
    check_source("reference.py", files["reference.py"])
    if source.strip("\n") not in files["reference.py"]:
        raise Refused("its code changed the written reference")
    try:
        load_task(folder.parent, folder.name, OPEN_TRACK.slug, CPU)
    except TaskError as error:
        reason = str(error).replace(f"{folder}: ", "")
        raise Refused(f"its task cannot be loaded: {reason}") from None
    return files
