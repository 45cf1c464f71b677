"""Storage of large event bodies: head and tail inline, the full text in a blob."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from arena.runs.models import Blob

MAX_INLINE_BYTES = 16 * 1024
HEAD, TAIL = 6000, 2000
"""Characters of a cut text."""
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
    if size <= MAX_INLINE_BYTES:
        return body, []
    whole = json.dumps(body)
    body = json.loads(whole)
    blobs: dict[str, Blob] = {}
    texts = sorted(_texts(body), key=lambda found: -len(found[1]))
    for path, text, replace in texts:
        if size <= MAX_INLINE_BYTES or len(text) <= HEAD + TAIL:
            break
        blobs[path] = blob_of(text)
        cut = f"{text[:HEAD]}\n… {len(text) - HEAD - TAIL} characters cut …\n{text[-TAIL:]}"
        replace(cut)
        size -= _size(text) - _size(cut)
    if size > MAX_INLINE_BYTES:
        blobs[""] = blob_of(whole)
        body = _outline(body, MAX_INLINE_BYTES)
    body["blobs"] = {path: blob.reference for path, blob in blobs.items()}
    return body, list(blobs.values())


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
