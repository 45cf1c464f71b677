"""The user as whom the judge runs: that of the worker, or ARENA_JUDGE_USER where root works.

A judge reads task folders and a cache, and needs nothing else of the arena. As another user it can
read neither the environment of the worker nor its files, whatever escapes from its sandbox.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

from django.conf import settings

from arena.home import judge_home
from runners.process.account import Account, BadAccount


@functools.cache
def account() -> Account | None:
    """Return the judge's user; None for that of the worker. Raises BadAccount."""
    return Account.named(settings.JUDGE_USER) if settings.JUDGE_USER else None


def cache() -> Path:
    """Return the judge's cache folder."""
    return judge_home() / "judge"


def prepare() -> None:
    """Make the folders of the judge's user, and check that it can run here. Raises BadAccount."""
    user = account()
    if user is None:
        return
    user.let_in(judge_home())
    user.give(cache(), 0o700)
    problem = _problem(user, [sys.executable, "-c", "import evaluation"])
    if problem:
        raise BadAccount(
            f"{user.name!r} cannot run the judge: {problem}. It must read Python, the checkout and"
            f" {judge_home()}."
        )


def _problem(user: Account, command: list[str]) -> str:
    """Return why a command does not run as a user; empty if it does."""
    try:
        done = subprocess.run(
            command,
            user=user.uid,
            group=user.gid,
            extra_groups=user.groups,
            cwd=settings.BASE_DIR,
            env={},
            capture_output=True,
            text=True,
        )
    except OSError as error:
        return str(error)
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""
