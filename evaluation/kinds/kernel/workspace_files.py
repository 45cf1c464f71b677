"""Workspace files of an agent, made from the public part of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evaluation.code.languages import languages
from evaluation.tasks.domain import Choices, Range
from evaluation.tasks.toml_reader import read_text
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
{timed}
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

_TIMED = """
Timed launches have other values. What the text above says of inputs holds there as well; what only
`inputs` in `reference.py` makes of them, such as an order or a sum, need not.
"""

_BASELINE = "The file holds the baseline: what it does now is what must be beaten."
_SKELETON = "The file is a skeleton. To be beaten: `reference`, eager or compiled."


def starter_files(task: Task) -> dict[str, str]:
    """Return the files by name: the target, TASK.md, reference.py, and any header."""
    operator, track = task.operator, task.track
    language = languages()[track.target]
    header = language.header(operator)
    # In torch the baseline is the reference, which is no file to change.
    from_baseline = track.source == track.target != "torch"
    words = {
        "name": operator.name,
        "language": language.name,
        "file": task.target_file,
        "outputs": " and ".join(f"`{argument.name}`" for argument in operator.outputs),
        "parameters": ", ".join(argument.name for argument in operator.arguments),
    }
    reference = read_text(operator.folder / "reference.py")
    # Structured inputs of an imported problem, which its code alone describes, are drawn whole.
    draws_its_own = operator.source is None and "def inputs(" in reference
    brief = _BRIEF.format(
        **words,
        title=operator.title,
        source=track.source,
        target=track.target,
        prompt=operator.prompt.strip(),
        convention=language.texts.convention.format(**words),
        signature=f"```c\n{header}```" if header else "",
        arguments="\n".join(_argument_row(argument) for argument in operator.arguments),
        start=_BASELINE if from_baseline else _SKELETON,
        cases=_case_table(operator, task.cases(Split.SEEN)),
        domain=_domain_table(task),
        timed=_TIMED if draws_its_own else "",
        rules=language.texts.rules,
        profile=_PROFILE if language.texts.profiled else "",
    )
    skeleton = language.texts.skeleton.format(**words)
    files = {
        task.target_file: operator.baseline(track.source) if from_baseline else skeleton,
        "TASK.md": brief,
        "reference.py": reference,
    }
    return files | ({f"{operator.name}.h": header} if header else {})


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
    ranges = {name: _range(values) for name, values in task.operator.domain.symbols.items()}
    rows = {"dtype": ", ".join(task.dtypes), **ranges}
    lines = (f"| {name} | {values} |" for name, values in rows.items())
    return "\n".join(("| symbol | values |", "|---|---|", *lines))


def _range(values: Range) -> str:
    if isinstance(values, Choices):
        return ", ".join(map(str, values.values))
    multiples = f", multiples of {values.multiple_of}" if values.multiple_of > 1 else ""
    return f"{values.low} to {values.high}{multiples}"
