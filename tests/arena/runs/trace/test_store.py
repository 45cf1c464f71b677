"""The store of texts: what is read is what was written, whatever a stop has left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arena.runs.trace import store

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


def test_missing_text_is_refused(folder: Path) -> None:
    with pytest.raises(store.Damaged, match="not in the store"):
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


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """Serve an S3-compatible store on a port of this machine, and return its address."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


PROGRAM = f"""
import boto3, django
django.setup()
boto3.client("s3").create_bucket(Bucket="texts")
from arena.runs.trace import store
text = {TEXT!r}
try:
    store.get("0" * 64)
except store.Damaged as error:
    assert "not in the store" in error.message
    print("missing")
key = store.put(text)
assert store.put(text) == key and store.get(key) == text
names = [each["Key"] for each in boto3.client("s3").list_objects_v2(Bucket="texts")["Contents"]]
assert names == [f"arena/{{key[:2]}}/{{key}}.xz"], names
boto3.client("s3").put_object(Bucket="texts", Key=names[0], Body=b"torn")
try:
    store.get(key)
except store.Damaged:
    print("damaged")
assert store.get(store.put(text)) == text
"""


def test_texts_lie_in_an_s3_compatible_store_where_one_is_set(
    s3: str, repository: Path, tmp_path: Path
) -> None:
    environment = {
        **os.environ,
        "ARENA_HOME": str(tmp_path),
        "ARENA_STORE": "s3://texts/arena",
        "AWS_ENDPOINT_URL": s3,
        "AWS_ACCESS_KEY_ID": "name",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "DJANGO_SETTINGS_MODULE": "arena.settings",
    }
    words = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(words, cwd=repository, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["missing", "damaged"]
    assert not (tmp_path / "store").exists()
