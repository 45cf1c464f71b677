"""A judge of another user than the worker: what it is, and what it can read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import pytest

from runners.process.account import Account, BadAccount
from tests.runners.house import ROOT

PYTHON = "/usr/bin/python3"
"""A Python that every user can read, whatever that of this environment is."""
USER = "nobody"
PROGRAM = Path(__file__).with_name("judged_as.py")
JUDGE = """
import json, os, sys
from pathlib import Path

def can(act):
    try:
        act()
    except OSError:
        return False
    return True

request = json.load(sys.stdin)
cache, worker = Path(request["cache"]), request["worker"]
print(json.dumps({
    "type": "report", "uid": os.getuid(), "groups": os.getgroups(), "home": os.environ["HOME"],
    "environment": can(Path(f"/proc/{worker}/environ").read_bytes),
    "secret": can((cache.parents[1] / "home" / "secret").read_bytes),
    "cache": can((cache / "built").touch),
    "tasks": can((cache.parent / "tasks").mkdir),
    "signal": can(lambda: os.kill(worker, 0)),
}))
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a folder that other users can enter, which those of pytest are not."""
    if os.geteuid() != 0:
        pytest.skip("only root starts processes of another user")
    folder = Path(tempfile.mkdtemp(prefix="arena-judge-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def judged(place: Path, user: str) -> Any:
    """Return the report of a judge that a worker of root starts as a user."""
    (place / "judge.py").write_text(JUDGE)
    packages = str(Path(django.__file__).parents[1])
    environment = {
        **os.environ,
        "ARENA_HOME": str(place / "home"),
        "ARENA_JUDGE_USER": user,
        "DATABASE_URL": "sqlite:///:memory:",
        "DJANGO_SETTINGS_MODULE": "arena.settings",
        "PYTHONPATH": f"{ROOT}:{packages}",
        "SECRET_KEY": "of the worker",
    }
    command = [PYTHON, str(PROGRAM), str(place / "judge.py")]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def readable_python() -> str:
    """Return why the other user cannot run the judge here; empty if it can."""
    account = Account.named(USER)
    command = [
        PYTHON,
        "-c",
        f"import sys; open({str(PROGRAM)!r}); sys.exit(sys.version_info < (3, 11))",
    ]
    done = subprocess.run(
        command, user=account.uid, group=account.gid, cwd="/", capture_output=True, text=True
    )
    return done.stderr[-200:] or ("" if done.returncode == 0 else f"{PYTHON} is too old")


def test_judge_of_another_user_reads_nothing_of_the_worker(place: Path) -> None:
    if problem := readable_python():
        pytest.skip(f"{USER} cannot read this checkout or run its Python: {problem}")
    report = judged(place, USER)
    account = Account.named(USER)
    assert report["uid"] == account.uid and set(report["groups"]) == set(account.groups)
    assert report["home"] == str(place / "home-judge" / "judge")
    may = {name for name, value in report.items() if value is True}
    assert may == {"cache"}, "it writes its cache, and neither tasks nor what is the worker's"


def test_judge_of_the_worker_reads_what_that_reads(place: Path) -> None:
    report = judged(place, "")
    assert report["uid"] == 0 and report["environment"] and report["secret"]


def test_folder_of_the_judge_is_closed_to_everybody_else(place: Path) -> None:
    account = Account.named(USER)
    account.let_in(place / "tasks")
    account.give(place / "cache", 0o700)
    modes = {path.name: path.stat() for path in place.iterdir()}
    assert (modes["tasks"].st_uid, modes["tasks"].st_gid) == (0, account.gid)
    assert modes["tasks"].st_mode & 0o777 == 0o750
    assert (modes["cache"].st_uid, modes["cache"].st_mode & 0o777) == (account.uid, 0o700)


@pytest.mark.parametrize(("name", "problem"), [("nobody-here", "no user"), ("root", "is root")])
def test_account_that_is_none_or_is_the_workers_is_refused(
    place: Path, name: str, problem: str
) -> None:
    with pytest.raises(BadAccount, match=problem):
        Account.named(name)
