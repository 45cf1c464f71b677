"""Access of other local users to the data folder."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from arena.home import make_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_new_home_is_closed_to_other_users(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "home")
    assert mode(tmp_path / "a" / "home") == 0o700


@pytest.mark.parametrize("left", [0o755, 0o750, 0o777])
def test_settings_close_a_home_that_was_left_open(
    left: int, tmp_path: Path, repository: Path
) -> None:
    tmp_path.chmod(left)
    environment = {**os.environ, "ARENA_HOME": str(tmp_path), "SECRET_KEY": "of this process"}
    command = [sys.executable, "-c", "import arena.settings"]
    subprocess.run(command, cwd=repository, env=environment, check=True)
    assert mode(tmp_path) == 0o700


@pytest.mark.parametrize("secret_key", ["", "of this process"])
def test_home_that_is_a_file_is_refused_in_one_sentence(
    secret_key: str, tmp_path: Path, repository: Path
) -> None:
    home = tmp_path / "home"
    home.touch()
    environment = {**os.environ, "ARENA_HOME": str(home), "SECRET_KEY": secret_key}
    command = [sys.executable, "manage.py", "check"]
    ended = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True)
    assert ended.stderr == (
        f"{home} cannot be written to (it is a file): set ARENA_HOME to another folder\n"
    )
    assert ended.returncode == 1


def test_folder_for_all_users_stays_open(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    make_private(tmp_path)
    assert mode(tmp_path) == 0o1777
    tmp_path.chmod(0o700)
