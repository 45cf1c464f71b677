"""The store of texts: what is read is what was written, whatever a stop has left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from arena import store

TEXT = "übersetzt\n" * 100


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    """Keep the store in files of a folder."""
    files = {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": tmp_path},
    }
    settings.STORAGES = {**settings.STORAGES, store.NAME: files}
    return tmp_path


def test_text_that_is_stored_twice_lies_there_once_and_is_small(folder: Path) -> None:
    key = store.put(TEXT)
    assert store.put(TEXT) == key
    (file,) = (path for path in folder.rglob("*") if path.is_file())
    assert key in file.name and file.stat().st_size < len(TEXT) / 5
    assert store.get(key) == TEXT


def test_missing_text_is_no_file(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.get("0" * 64)


@pytest.mark.parametrize("left", [b"", b"torn", None], ids=["empty", "torn", "another"])
def test_file_that_a_stop_has_left_is_refused_and_written_anew(
    folder: Path, left: bytes | None
) -> None:
    key, other = store.put(TEXT), store.put("another")
    (file,) = folder.rglob(f"{key}.xz")
    (of_other,) = folder.rglob(f"{other}.xz")
    file.write_bytes(of_other.read_bytes() if left is None else left)
    with pytest.raises(store.Damaged):
        store.get(key)
    assert store.put(TEXT) == key
    assert store.get(key) == TEXT
