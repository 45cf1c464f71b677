"""The secret of a machine, which is made once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from evaluation.kinds.kernel.machine_secret import SECRET_BYTES, machine_secret


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
