"""Texts outside the database, in files or an S3-compatible store, keyed by their SHA-256.

A text is written once and read back before it counts as stored, so that the database can forget it.
"""

from __future__ import annotations

import contextlib
import hashlib
import lzma
import os

from django.core.files.base import ContentFile
from django.core.files.storage import Storage, storages

from arena.errors import Conflict

NAME = "texts"
"""The store among Django's STORAGES."""


class Damaged(Conflict):
    """A stored text that is missing, or whose hash is another than its key."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "Bring its file back from a backup of the store of texts.")


def put(text: str) -> str:
    """Store a text, and return its key once it can be read back. Raises OSError, Damaged."""
    data = text.encode()
    key = hashlib.sha256(data).hexdigest()
    with contextlib.suppress(Damaged):
        if get(key) == text:
            return key
    place, name = _store(), name_of(key)
    place.delete(name)  # what a stop in the middle has left; nothing otherwise
    place.save(name, ContentFile(lzma.compress(data)))
    with place.open(name, "rb") as file, contextlib.suppress(OSError):  # a remote one has no number
        os.fsync(file.fileno())
    if get(key) != text:
        raise Damaged(f"{key} was stored and is not there.")
    return key


def get(key: str) -> str:
    """Return the text of a key. Raises Damaged if it is missing or another."""
    try:
        with _store().open(name_of(key), "rb") as file:
            packed = file.read()
    except FileNotFoundError:
        raise Damaged(f"The text {key} is not in the store.") from None
    try:
        data = lzma.decompress(packed)
    except (lzma.LZMAError, EOFError) as error:
        raise Damaged(f"{key} is no whole file: {error}.") from error
    if hashlib.sha256(data).hexdigest() != key:
        raise Damaged(f"{key} holds another text.")
    return data.decode()


def _store() -> Storage:
    return storages[NAME]


def name_of(key: str) -> str:
    """Return the name of the file that has the text of a key."""
    return f"{key[:2]}/{key}.xz"
