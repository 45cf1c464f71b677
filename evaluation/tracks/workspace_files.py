"""Workspace files of an agent, made from the public part of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evaluation.languages import languages
from evaluation.tasks.domain import Choices, LogUniform, Range
from evaluation.types import Argument, Case, Split

if TYPE_CHECKING:
    from evaluation.tasks.operator import Operator
    from evaluation.tasks.spec import Task

_BRIEF = """\
# {title}: {source} to {target}

{prompt}

## What to hand in

{convention}

{signature}

| argument | role | dtype | shape |
|---|---|---|---|
{arguments}

{start}

## Cases

These are timed, and every one must be right:

{cases}

Right answers are also asked for at awkward sizes (1, 3, 7, around powers of two) and for other
inputs: large, tiny, with outliers, shifted, structured and cancelling. At the end come cases that
you are not shown, from this domain:

{domain}

An output y is right when |y - y*| <= c1 u |y*| + c2 6.0e-8 sqrt(K) s, where y* is the exact answer,
u the unit roundoff of the output, s its `magnitude` and K its `reduction` (both in `reference.py`):
the accuracy of a careful float32 implementation.

## Rules

{rules}
- One source file, `{file}`; other files are not handed in.

## Asking for a verdict

Run `./arena-check` in this folder. It hands in `{file}` as it stands, prints what each gate said
and the speedup of each case, and counts as one round of your budget.
{profile}"""

_PROFILE = """
Run `./arena-profile` to see where the time of the round before went, kernel by kernel: duration,
share of memory and compute, occupancy, registers, what warps wait for. `./arena-profile CASE` takes
another case than the largest. It needs a GPU, counts as no round, and a run has a dozen.
"""


def starter_files(task: Task) -> dict[str, str]:
    """Return the files by name: the target, TASK.md, reference.py, and any header."""
    files = {
        task.target_file: _target(task),
        "TASK.md": _brief(task),
        "reference.py": (task.operator.folder / "reference.py").read_text(encoding="utf-8"),
    }
    if text := languages()[task.track.target].header(task.operator):
        files[f"{task.operator.name}.h"] = text
    return files


def parameters(operator: Operator) -> str:
    """Return the parameters of a Python entry point, outputs included."""
    return ", ".join(argument.name for argument in operator.arguments)


def _target(task: Task) -> str:
    track, operator = task.track, task.operator
    if _starts_from_baseline(task):
        return operator.baseline(track.source)
    skeleton = languages()[track.target].texts.skeleton
    return skeleton.format(**_words(task), stream=f"{track.target}Stream_t")


def _starts_from_baseline(task: Task) -> bool:
    """Return whether the baseline is a file to change; for torch it is the reference."""
    return task.track.source == task.track.target != "torch"


def _words(task: Task) -> dict[str, str]:
    return {
        "name": task.operator.name,
        "file": task.target_file,
        "outputs": " and ".join(f"`{argument.name}`" for argument in task.operator.outputs),
        "parameters": parameters(task.operator),
    }


def _brief(task: Task) -> str:
    operator, track = task.operator, task.track
    words = _words(task)
    language = languages()[track.target]
    signature = language.header(operator)
    return _BRIEF.format(
        **words,
        title=operator.title,
        source=track.source,
        target=track.target,
        prompt=operator.prompt.strip(),
        convention=language.texts.convention.format(**words),
        signature=f"```c\n{signature}```" if signature else "",
        arguments="\n".join(_argument_row(argument) for argument in operator.arguments),
        start=(
            "The file holds the baseline: what it does now is what must be beaten."
            if _starts_from_baseline(task)
            else "The file is a skeleton. To be beaten: `reference`, eager or compiled."
        ),
        cases=_case_table(operator, task.cases(Split.SEEN)),
        domain=_domain_table(task),
        rules=language.texts.rules,
        profile=_PROFILE if language.texts.profiled else "",
    )


def _argument_row(argument: Argument) -> str:
    dtype = "the case's" if argument.dtype == "dtype" else argument.dtype
    shape = f"[{', '.join(map(str, argument.shape))}]" if argument.shape else "scalar"
    return f"| {argument.name} | {argument.role} | {dtype} | {shape} |"


def _case_table(operator: Operator, cases: tuple[Case, ...]) -> str:
    symbols = tuple(operator.domain.symbols)
    rows = [("case", "dtype", *symbols), ("---",) * (len(symbols) + 2)]
    rows += [(c.name, c.dtype, *(str(c[symbol]) for symbol in symbols)) for c in cases]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _domain_table(task: Task) -> str:
    rows = [
        f"| {symbol} | {_range(values)} |"
        for symbol, values in task.operator.domain.symbols.items()
    ]
    return "\n".join(
        ("| symbol | values |", "|---|---|", f"| dtype | {', '.join(task.dtypes)} |", *rows)
    )


def _range(values: Range) -> str:
    match values:
        case Choices(values=choices):
            return ", ".join(str(choice) for choice in choices)
        case LogUniform(low=low, high=high, multiple_of=multiple):
            return f"{low} to {high}" + (f", multiples of {multiple}" if multiple > 1 else "")
