"""Ready scripts: the optimisation of a real task in C++, from sources kept with the task."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from evaluation.tasks.spec import folder_of
from tests.model_server.script import Fault, FileRead, FileWrite, Script, Turn

TASKS = Path(__file__).parents[2] / "tasks"
ENDING = "Correct and faster than the baseline; what is left is memory traffic."


@dataclass(frozen=True)
class Sources:
    """Names of implementations of a task: one with wrong values, a plain and a fast one."""

    wrong: str
    plain: str
    fast: str


SOURCES = {
    "rms_norm": Sources("no_mean", "double_sum", "vectorised"),
    "swiglu": Sources("sigmoid_only", "double_precision", "vectorised"),
    "rope": Sources("queries_only", "double_precision", "vectorised"),
    "cross_entropy": Sources("truncated_vocabulary", "online", "vectorised"),
    "softmax": Sources("no_division", "online", "base_two"),
    "matmul": Sources("tail_columns", "dot_products", "registers"),
}


def optimisation(task: str, *, faults: tuple[Fault, ...] = (), seconds: float = 0.0) -> Script:
    """Return a script that reads the task, is wrong, is right, is fast, and ends.

    `faults` come before the plain kernel. `seconds` is the time of each streamed turn.
    """
    sources = SOURCES[task]
    return Script(
        (
            Turn(
                "I read the task first.",
                ("sed -n 1,40p TASK.md",),
                reasoning="The conventions of the call and the cases are in TASK.md.",
                seconds=seconds,
            ),
            Turn(
                "A first kernel.",
                (_write(task, wrong(task), "first kernel"),),
                reasoning="A plain loop is enough to learn what the judge expects.",
                seconds=seconds,
            ),
            Turn(
                "The values are wrong, so I correct the formula.",
                (_write(task, honest(task, sources.plain), "the formula corrected"),),
                faults=faults,
                seconds=seconds,
            ),
            Turn(
                "It passes. Now the vector units and the threads of this machine.",
                (_write(task, honest(task, sources.fast), "vectorised"),),
                reasoning="The compiler may reorder the sums: the tolerance allows it.",
                seconds=seconds,
            ),
            Turn(ENDING, seconds=seconds),
        )
    )


def optimisation_with_file_tools(task: str) -> Script:
    """Return the same work, with a harness's own tools for files and a turn for each step.

    A comment of each source has the words by which the stand-in for the judge decides the same.
    """
    sources, target = SOURCES[task], f"{task}.cpp"
    plain, fast = honest(task, sources.plain), honest(task, sources.fast)
    steps = (
        (
            f"{wrong(task)}// wrong\n",
            "first kernel",
            "A plain loop is enough to learn what the judge expects.",
        ),
        (f"{plain}// speedup 1.2\n", "the formula corrected", ""),
        (f"{fast}// speedup 1.5\n", "vectorised", "The tolerance allows another order of sums."),
    )
    turns = [Turn("I read the task and the starter.", ("cat TASK.md", FileRead(target)))]
    for source, note, reasoning in steps:
        turns.append(Turn(f"Next: {note}.", (FileWrite(target, source),), reasoning=reasoning))
        turns.append(Turn("", (f"./arena-check {note}",)))
    return Script((*turns, Turn(ENDING)))


def by_prompt(prompt: str) -> Script:
    """Return the script for the target that a harness's instruction names."""
    for task in SOURCES:
        if re.search(rf"\b{task}\.cpp\b", prompt):
            return optimisation(task)
    known = ", ".join(SOURCES)
    return Script((Turn(f"I have no script for this task; there are: {known}."),))


def honest(task: str, name: str) -> str:
    return (folder_of(TASKS, task) / "honest" / f"{name}.cpp.cpp").read_text(encoding="utf-8")


def wrong(task: str) -> str:
    """Return the baseline with the edits of a mutant that computes wrong values."""
    folder = folder_of(TASKS, task)
    path = folder / "mutants" / f"{SOURCES[task].wrong}.cpp.toml"
    mutant = tomllib.loads(path.read_text(encoding="utf-8"))
    source = (folder / mutant["of"]).read_text(encoding="utf-8")
    for old, new in mutant["edits"]:
        assert source.count(old) == 1, f"{path}: not found exactly once: {old}"
        source = source.replace(old, new)
    return source


def _write(task: str, source: str, note: str) -> str:
    return f"cat > {task}.cpp <<'SOURCE'\n{source}SOURCE\n./arena-check {note}"
