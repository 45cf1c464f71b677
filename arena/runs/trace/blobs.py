"""Storage of large event bodies: head and tail inline, the full text in a blob."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from arena.runs.models import Blob

MAX_INLINE_BYTES = 16 * 1024
ENDS = ((6000, 2000), (1500, 500), (300, 100))
"""Characters at the head and the tail of a cut text, fewer where a body has many long texts."""
LISTINGS, LISTING_ENDS = "listings/", (600, 200)
"""Path of the listings of a compiler, and their ends: a listing is read whole, or not at all."""
LIST_HEAD, LIST_TAIL = 20, 5
"""Items of a cut list."""
MAX_MAP_ENTRIES = 40

Replace = Callable[[Any], None]


def shrink(body: dict[str, Any]) -> tuple[dict[str, Any], list[Blob]]:
    """Return the body within 16 KiB, and the blobs with the full texts.

    `body["blobs"]` maps the path of each cut value, such as `output` or `listings/main.s`, to its
    hash and size. A body that is large without a large text is cut as a whole, under the path "".
    Keys in a path are escaped as in a JSON Pointer (RFC 6901); in older events they are not.
    """
    size = _size(body)
    if size <= MAX_INLINE_BYTES and not body.get("listings"):
        return body, []
    whole = json.dumps(body)
    body = json.loads(whole)
    texts = sorted(_texts(body), key=lambda found: -len(found[1]))
    cutter = _Cutter(size)
    for found in texts:
        if found[0].startswith(LISTINGS):
            cutter.cut(*found, *LISTING_ENDS)
    for ends in ENDS:
        for found in texts:
            if cutter.size <= MAX_INLINE_BYTES or len(found[1]) <= sum(ends):
                break
            cutter.cut(*found, *ends)
    blobs = cutter.blobs
    if cutter.size > MAX_INLINE_BYTES:
        blobs[""] = blob_of(whole)
        body = _outline(body, MAX_INLINE_BYTES)
    if blobs:
        body["blobs"] = {path: blob.reference for path, blob in blobs.items()}
    return body, list(blobs.values())


class _Cutter:
    """Cuts texts of a body of `size` bytes to their ends, and keeps each whole in a blob."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.blobs: dict[str, Blob] = {}
        self._shown: dict[str, str] = {}

    def cut(self, path: str, text: str, replace: Replace, head: int, tail: int) -> None:
        """Cut a text, unless it is shown as short already."""
        shown = self._shown.get(path, text)
        cut = f"{text[:head]}\n… {len(text) - head - tail} characters cut …\n{text[-tail:]}"
        if len(cut) < len(shown):
            replace(cut)
            self.size -= _size(shown) - _size(cut)
            self._shown[path] = cut
            self.blobs.setdefault(path, blob_of(text))


def _size(value: Any) -> int:
    return len(json.dumps(value))


def blob_of(text: str) -> Blob:
    """Return the blob that holds a text."""
    data = text.encode()
    return Blob(sha256=hashlib.sha256(data).hexdigest(), size=len(data), content=text)


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str, Replace]]:
    """Yield every text inside `value`, with its path and a function that replaces it."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        name = str(key).replace("~", "~0").replace("/", "~1")
        here = f"{path}/{name}" if path else name
        if isinstance(item, str):
            yield here, item, partial(value.__setitem__, key)
        elif isinstance(item, (dict, list)):
            yield from _texts(item, here)


def _outline(value: Any, room: int) -> Any:
    """Return `value` cut to about `room` bytes: ends of texts and lists, part of maps."""
    if _size(value) <= room:
        return value
    if isinstance(value, str):
        return value[: max(room // 3, 0)] + "…"
    if isinstance(value, list):
        kept = (
            value[:LIST_HEAD] + value[-LIST_TAIL:] if len(value) > LIST_HEAD + LIST_TAIL else value
        )
        return [_outline(item, room // (len(kept) + 1)) for item in kept]
    if isinstance(value, dict):
        smallest_first = sorted(value.items(), key=lambda item: _size(item[1]))[:MAX_MAP_ENTRIES]
        outlined: dict[str, Any] = {}
        for index, (key, item) in enumerate(smallest_first):
            share = (room - _size(outlined)) // (len(smallest_first) - index)
            outlined[key] = _outline(item, share)
        return outlined
    return value
