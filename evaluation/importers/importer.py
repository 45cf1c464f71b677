"""Import of a suite: one folder of tasks, and what each problem came to."""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Lock

from evaluation.errors import RequestError
from evaluation.importers import convert
from evaluation.importers.checkout import BadFile, Checkout
from evaluation.importers.convert import Converted, Refused
from evaluation.importers.files import Files
from evaluation.importers.names import distinct
from evaluation.importers.outcome import FIRST_CLASS, REFUSED, Import, Outcome
from evaluation.importers.suites import Problem, Suite
from evaluation.sandbox import untrusted_files
from evaluation.sandbox.features import isolation_features

VERSION = 3
"""Version of the conversion; a new one converts unchanged problems again."""
VERSION_OF_REFUSALS = 7
"""Version of what is refused; a new one tries refused problems again."""
GROUP = 3
"""Problems that are converted in one sandbox."""
PROBLEM, CASES = "problem", "cases"
"""Files of the suite in the folder of a task, which keep their suffixes."""
LICENCE = "LICENSE"
CACHE = ".refused.json"
"""Reasons of earlier refusals, so that an import of the same files takes no time again."""

Report = Callable[[Outcome], None]


def import_suite(
    suite: Suite,
    checkout: Checkout,
    folder: Path,
    only: Sequence[str] = (),
    report: Report = lambda outcome: None,
) -> Import:
    """Import the problems of a checkout into `folder/<suite>`, and return what each came to.

    `only` has globs of names of tasks or of paths; one of them must match.

    Raises: RequestError where there are no problems, or nothing can be written.
    """
    problems = chosen_problems(suite, checkout, only)
    target = folder / suite.slug
    try:
        target.mkdir(parents=True, exist_ok=True)
        _write_text(target / LICENCE, checkout.licence())
    except OSError as error:
        raise RequestError(f"{target}: {error.strerror}; name another folder by --into") from None
    isolation_features()  # cached before the threads start
    refused = _Refusals(target / CACHE)

    groups = [problems[n : n + GROUP] for n in range(0, len(problems), GROUP)]

    def several(group: Sequence[Problem]) -> list[Outcome]:
        found = list(_imported(suite, checkout, group, target, refused))
        for outcome in found:
            report(outcome)
        return found

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        outcomes = [outcome for found in pool.map(several, groups) for outcome in found]
    return Import(
        suite.slug,
        suite.title,
        checkout.repository,
        checkout.commit,
        checkout.licence_name(),
        tuple(outcomes),
        tuple(suite.unused(checkout)),
    )


def chosen_problems(suite: Suite, checkout: Checkout, only: Sequence[str]) -> list[Problem]:
    """Return the problems that any glob of `only` matches, each with a name of its own.

    Raises: RequestError where there are none, or none for one of the globs.
    """
    problems = distinct(suite.problems(checkout))
    none = f"{checkout.root}: no problems of {suite.title}"
    for glob in only:
        if not any(_matches(each, glob) for each in problems):
            raise RequestError(f"{none} match {glob!r}")
    if not problems:
        raise RequestError(f"{none} are there; is it a checkout of {suite.repository}?")
    return [each for each in problems if not only or any(_matches(each, glob) for glob in only)]


def _matches(problem: Problem, glob: str) -> bool:
    return fnmatchcase(problem.name, glob) or fnmatchcase(problem.path, glob)


def _imported(
    suite: Suite,
    checkout: Checkout,
    problems: Sequence[Problem],
    target: Path,
    refused: _Refusals,
) -> Iterator[Outcome]:
    """Yield what each problem came to; folders of new and changed ones are written."""
    new: dict[str, Files] = {}
    known: dict[str, Outcome] = {}
    for each in problems:
        try:
            files = _read(checkout, each)
        except BadFile as error:
            known[each.name] = Outcome(each.name, each.path, REFUSED, str(error))
            continue
        if (outcome := _unchanged(target / each.name, each, files)) or (
            outcome := refused.outcome(each, files)
        ):
            known[each.name] = outcome
        else:
            new[each.name] = files
    left = [(each, new[each.name]) for each in problems if each.name in new]
    converted = convert.convert_all(left, suite)
    for each in problems:
        if each.name in known:
            yield known[each.name]
            continue
        found = next(converted)
        if isinstance(found, Refused):
            refused.note(each, new[each.name], found)
            yield Outcome(each.name, each.path, REFUSED, str(found))
        else:
            yield _written(suite, checkout, each, target, new[each.name], found)


def _read(checkout: Checkout, problem: Problem) -> Files:
    """Return the files of a problem. Raises BadFile."""
    source = checkout.read(problem.path)
    return Files(source, checkout.read(problem.cases) if problem.cases else "")


def _written(
    suite: Suite,
    checkout: Checkout,
    problem: Problem,
    target: Path,
    files: Files,
    converted: Converted,
) -> Outcome:
    """Write the folder of a converted problem."""
    origin = {
        "suite": suite.slug,
        "title": suite.title,
        "repository": checkout.repository,
        "commit": checkout.commit,
        "path": problem.path,
        "sha256": files.sha256,
        "licence": checkout.licence_name(),
        "form": suite.form,
        "version": VERSION,
        "score": suite.score,
        "flags": list(converted.flags),
        "fingerprint": converted.fingerprint,
    }
    if suite.tolerance:
        origin["tolerance"] = suite.tolerance
    toml = converted.files["task.toml"] + "\n[source]\n" + _lines(origin)
    place = target / problem.name
    written = "changed" if place.is_dir() else "new"
    _replace(place, {**converted.files, "task.toml": toml, **_kept(problem, files)})
    return Outcome(
        problem.name,
        problem.path,
        FIRST_CLASS,
        "",
        converted.flags,
        converted.fingerprint,
        written,
    )


def _kept(problem: Problem, files: Files) -> dict[str, str]:
    """Return the suite's own files by the names that they get."""
    named = {PROBLEM: (problem.path, files.source), CASES: (problem.cases, files.cases)}
    return {stem + Path(path).suffix: text for stem, (path, text) in named.items() if path}


def _unchanged(place: Path, problem: Problem, files: Files) -> Outcome | None:
    """Return the outcome of a folder that was imported from the same bytes before."""
    try:
        table = tomllib.loads((place / "task.toml").read_text(encoding="utf-8"))["source"]
        same = table["sha256"] == files.sha256 and table["version"] == VERSION
        texts = _kept(problem, files).items()
        kept = all((place / name).read_bytes() == text.encode() for name, text in texts)
        complete = all((place / name).is_file() for name in convert.FILES)
        flags, fingerprint = tuple(table["flags"]), table["fingerprint"]
    except (OSError, ValueError, KeyError):
        return None
    if not (same and kept and complete):
        return None
    return Outcome(problem.name, problem.path, FIRST_CLASS, "", flags, fingerprint, "unchanged")


class _Refusals:
    """Reasons of refusals by task and content, kept beside the folders of tasks."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, Lock()
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            self._known = dict(found["refused"]) if found["version"] == VERSION_OF_REFUSALS else {}
        except (OSError, ValueError, KeyError, TypeError):
            self._known = {}

    def outcome(self, problem: Problem, files: Files) -> Outcome | None:
        """Return the outcome of a problem that was refused with the same bytes before."""
        found = self._known.get(problem.name, {})
        if found.get("sha256") != files.sha256:
            return None
        return Outcome(problem.name, problem.path, REFUSED, str(found["reason"]))

    def note(self, problem: Problem, files: Files, refused: Refused) -> None:
        """Keep the reason of a refusal that another attempt would repeat."""
        if not refused.final:
            return
        with self._lock:
            self._known[problem.name] = {"sha256": files.sha256, "reason": str(refused)}
            kept = {"version": VERSION_OF_REFUSALS, "refused": self._known}
            _write_text(self._path, json.dumps(kept, indent=1, sort_keys=True) + "\n")


def _lines(values: dict[str, object]) -> str:
    return "".join(f"{n} = {json.dumps(v, ensure_ascii=False)}\n" for n, v in values.items())


def _replace(place: Path, files: dict[str, str]) -> None:
    """Write a folder at once, in the place of an older one."""
    draft = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
    try:
        for name, text in files.items():
            (draft / name).write_text(text, encoding="utf-8", newline="")
        untrusted_files.make_readable(draft)
        if place.exists():
            old = Path(tempfile.mkdtemp(prefix=".old-", dir=place.parent))
            os.rename(place, old / place.name)
            os.rename(draft, place)
            untrusted_files.remove(old)
        else:
            os.rename(draft, place)
    finally:
        untrusted_files.remove(draft)


def _write_text(path: Path, text: str) -> None:
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(text, encoding="utf-8", newline="")
    os.replace(draft, path)
