"""Folders that get into the cache whole, and the secret of a machine, made once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluation.code.cache_folder import SECRET_BYTES, add_folder, machine_secret


def test_machine_secret_is_made_once_and_private(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    secret = machine_secret(cache)
    assert len(secret) == SECRET_BYTES and machine_secret(cache) == secret
    assert (cache / "secret").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in cache.iterdir()] == ["secret"]
    assert machine_secret(tmp_path / "other") != secret


def test_processes_that_begin_at_once_agree_on_the_secret(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(machine_secret, [tmp_path / "cache"] * 40))
    assert len(found) == 1


def made(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "artefact").write_text(text)
    return folder


def test_folder_that_another_process_added_first_stays(tmp_path: Path) -> None:
    target = tmp_path / "target"
    for text in ("first", "second"):
        add_folder(made(tmp_path / text, text), target)
    assert (target / "artefact").read_text() == "first"


def test_folder_that_cannot_be_added_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        add_folder(made(tmp_path / "made", "text"), tmp_path / "absent" / "target")
