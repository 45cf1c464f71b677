"""Folders that get into the cache whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.code.cache_folder import add_folder


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
