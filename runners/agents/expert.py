"""Agent with the reference solutions: it submits the honest implementations kept with the task.

Other agents do not see them, so its runs are shown for comparison and not ranked.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runners.agents import Spec
from runners.agents._parts.each import submit_each

if TYPE_CHECKING:
    from runners.session.session import AgentSession

KERNELS = ("*/*-to-*",)
"""Tasks from one language to another, which modules of live models are not."""
SPECS = (
    Spec(
        slug="expert",
        title="Expert (open\N{NO-BREAK SPACE}book)",
        description=(
            "Submits the reference solutions kept with each task, one per round, and keeps the "
            "best. No other agent may read them: they are shown for comparison. Those in CUDA are "
            "styles that the judge must accept, and not written for speed."
        ),
        tasks=KERNELS,
        open_book=True,
    ),
)

FOLDER = "solutions"


def workspace_files(root: Path, operator: str, track: str) -> Mapping[str, str]:
    """Return the files of its workspace: every implementation for the track beside the task."""
    from evaluation.kinds.kernel.load import load_operator  # outside the sandbox only
    from evaluation.tasks.spec import folder_of

    folder = folder_of(root, operator)
    kept = load_operator(folder)
    source, _, target = track.partition("-to-")
    found = {a.name: a.source for a in kept.honest() if a.language == target}
    if source != target and any(folder.glob(f"baseline/{target}.*")):
        found["baseline"] = kept.baseline(target)
    return {f"{FOLDER}/{name}": text for name, text in found.items()}


def work(session: AgentSession, settings: Mapping[str, Any]) -> None:
    folder = session.folder / FOLDER
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    session.message(
        f"I have {', '.join(names) or 'no solution'}, and {session.rounds_left} rounds."
    )
    submit_each(session, {name: session.read(f"{FOLDER}/{name}") for name in names})
