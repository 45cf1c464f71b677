"""Task brief of a repository: TASK.md, for agents and for people in a terminal."""

from __future__ import annotations

import shlex

from evaluation.kinds.repository.task import (
    BENCHMARK,
    BUILD,
    CORRECTNESS,
    NONCE,
    SEED,
    RepositoryTask,
)

_BRIEF = """\
# {title}

{prompt}

## What may be edited

{editable}

These are paths in this folder, which is a copy of the repository. New files at such paths count.
Every other file is as it was in each verdict; one that you changed must be put back before.

## What is run

| gate | command | seconds |
| --- | --- | --- |
{commands}

Each command runs in a sandbox without a network, in a fresh copy of the built repository. Run them
here as well. `{seed}` is a number that is new in each verdict, for inputs that are drawn.

## The clock

The benchmark's own clock counts ("suite's own clock"), of your files against the unchanged ones, in
turn and in processes of their own. The benchmark gets `{nonce}` and prints it; that is not your
code's business, and neither is the clock. Code that writes times or results in place of the suite
is cheating, and such runs are removed."""


def brief(task: RepositoryTask) -> str:
    """Return the brief as Markdown."""
    names = {BUILD: "compile", CORRECTNESS: "correctness", BENCHMARK: "performance"}
    rows = (
        f"| {names[name]} | `{shlex.join(command.argv)}` | {command.seconds:g} |"
        for name, command in task.commands.items()
    )
    return _BRIEF.format(
        title=task.title,
        prompt=task.prompt,
        editable="\n".join(f"- `{glob}`" for glob in task.editable),
        commands="\n".join(rows),
        seed=SEED,
        nonce=NONCE,
    )
