"""Samples of the model loop: each works on its own copy of the starter files.

The arena judges one target, that of the workspace. The `arena-check` of a sample puts the sample's
target there, one sample at a time, and keeps each answer with its source.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runners.session.arena_check import PROFILE

if TYPE_CHECKING:
    from runners.session.session import AgentSession

FOLDER = "samples"
ROUNDS_FILE = ".rounds.jsonl"
CHECK = "arena-check"

_CHECK = '''\
#!{python} -I
"""Submit this sample's target for a verdict: a round of the sample."""
import fcntl, json, os, shutil, subprocess, sys
own = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(own))
words = [word for word in sys.argv[1:] if word != "--json"]
with open(os.path.join(root, {folder!r}, ".lock"), "a+") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    rounds = open(os.path.join(own, {rounds_file!r}), "a+")
    rounds.seek(0)
    used = len(rounds.readlines())
    if used >= {rounds}:
        answer = {{"exit": 2, "text": "All {rounds} rounds of this sample are spent."}}
    else:
        shutil.copyfile(os.path.join(own, {target!r}), os.path.join(root, {target!r}))
        command = [os.path.join(root, "arena-check"), "--json", "{name}: " + " ".join(words)]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        answer = json.loads(ended.stdout.splitlines()[-1])
        if answer["exit"] < 2:
            with open(os.path.join(own, {target!r}), encoding="utf-8", errors="replace") as file:
                kept = {{"answer": answer, "source": file.read()}}
            rounds.write(json.dumps(kept) + "\\n")
            rounds.flush()
            used += 1
            answer["rounds_left"] = {rounds} - used
            lock.truncate(0)
            lock.write({name!r})
            left = str({rounds} - used)
            answer["text"] += "\\n{name} has " + left + " of {rounds} rounds left"
print(json.dumps(answer) if "--json" in sys.argv else answer["text"])
sys.exit(answer["exit"])
'''
_PROFILE = '''\
#!{python} -I
"""Profile this sample's last round, unless another sample has submitted since."""
import fcntl, os, subprocess, sys
own = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(own))
with open(os.path.join(root, {folder!r}, ".lock"), "a+") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    lock.seek(0)
    if lock.read() != {name!r}:
        print("The last round is not of this sample: submit again to profile it.")
        sys.exit(2)
    sys.exit(subprocess.call([os.path.join(root, "arena-profile"), *sys.argv[1:]]))
'''


@dataclass(frozen=True)
class Best:
    """The best round of a sample; `low` is the low end of its speedup's interval."""

    source: str
    speedup: float | None
    low: float


@dataclass(frozen=True)
class Sample:
    """One sample: its number from 1, and a session in its own folder."""

    number: int
    session: AgentSession

    @property
    def name(self) -> str:
        return f"sample {self.number}"

    def source(self) -> str:
        """Return its target as it stands; empty where it is not there."""
        try:
            return self.session.read(self.session.brief.target)
        except (OSError, UnicodeDecodeError):
            return ""

    def unchecked(self) -> bool:
        """Return whether its target has no verdict yet."""
        return all(source != self.source() for _, source in self._rounds())

    def best(self) -> Best | None:
        """Return its best passed round; None without one."""
        passed = [
            Best(source, answer.get("speedup"), answer.get("low") or 0.0)
            for answer, source in self._rounds()
            if answer["exit"] == 0
        ]
        return max(passed, key=lambda each: each.low, default=None)

    def _rounds(self) -> Iterator[tuple[dict[str, float], str]]:
        path = self.session.folder / ROUNDS_FILE
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                kept = json.loads(line)
                yield kept["answer"], kept["source"]


def create(session: AgentSession, count: int) -> list[Sample]:
    """Return samples, each with its own copy of the workspace's files and its share of rounds."""
    starter = [path for path in session.folder.iterdir() if _is_starter(path)]
    (session.folder / FOLDER).mkdir()
    rounds = max(1, session.brief.rounds // count)
    return [_create(session, number, rounds, starter) for number in range(1, count + 1)]


def _create(session: AgentSession, number: int, rounds: int, starter: list[Path]) -> Sample:
    folder = session.folder / FOLDER / str(number)
    folder.mkdir()
    for path in starter:
        (shutil.copytree if path.is_dir() else shutil.copyfile)(path, folder / path.name)
    own = copy.copy(session)  # it shares the output and the numbers of events
    own.folder, own.rounds_left = folder, rounds
    words = {
        "python": sys.executable,
        "folder": FOLDER,
        "rounds_file": ROUNDS_FILE,
        "rounds": rounds,
        "target": session.brief.target,
        "name": f"sample {number}",
    }
    for name, text in ((CHECK, _CHECK), (PROFILE, _PROFILE)):
        command = folder / name
        command.write_text(text.format(**words), encoding="utf-8")
        os.chmod(command, 0o755)
    return Sample(number, own)


def _is_starter(path: Path) -> bool:
    hidden = path.name.startswith((".", "arena-"))
    return not hidden and not path.is_symlink() and (path.is_file() or path.is_dir())
