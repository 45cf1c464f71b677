"""Compiled code of trusted processes reaches those that start before it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.kinds.module.kept_code import KeptCode
from evaluation.sandboxed.model.compiler_cache import FOLDER, HEADERS, ProcessCache


@pytest.fixture
def kept(tmp_path: Path) -> KeptCode:
    folders = KeptCode.of(tmp_path, "0" * 64, "2.0+cpu")
    folders.create()
    return folders


def compiled(scratch: Path, name: str, text: str = "code") -> Path:
    """Return a file in Inductor's folder of a scratch folder, written."""
    path = scratch / FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_kept_code_is_found_by_a_process_that_started_before(
    tmp_path: Path, kept: KeptCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "candidate"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")  # restored afterwards
    cache = ProcessCache(kept.code, kept.headers, "cuda")
    compiled(tmp_path / "baseline", "ab/kernel.so")
    kept.keep(tmp_path / "baseline")
    cache.fill()
    assert (cache.folder / "ab/kernel.so").read_text() == "code"


def test_locks_links_and_known_files_are_not_kept(tmp_path: Path, kept: KeptCode) -> None:
    compiled(tmp_path, "locks/a.lock")
    compiled(tmp_path, "b.so", "first")
    (tmp_path / FOLDER / "c.so").symlink_to("b.so")
    kept.keep(tmp_path)
    compiled(tmp_path, "b.so", "second")
    kept.keep(tmp_path)
    assert [path.name for path in kept.code.rglob("*") if path.is_file()] == ["b.so"]
    assert (kept.code / "b.so").read_text() == "first"


def test_headers_are_kept_for_all_architectures(tmp_path: Path, kept: KeptCode) -> None:
    compiled(tmp_path, f"{HEADERS}/a.h.gch")
    kept.keep(tmp_path)
    other = KeptCode.of(tmp_path, "1" * 64, "2.0+cpu")
    assert other.code != kept.code
    assert [path.name for path in other.headers.iterdir()] == ["a.h.gch"]
    assert not (kept.code / HEADERS).exists()


def test_a_file_that_is_still_copied_is_left_alone(
    tmp_path: Path, kept: KeptCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")  # restored afterwards
    (kept.code / ".partial").write_text("co")
    cache = ProcessCache(kept.code, kept.headers, "cuda")
    cache.fill()
    assert not cache.folder.exists()
